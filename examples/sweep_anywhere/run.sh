#!/bin/sh
# run.sh [OPTIONS of rota submit]: the sweep, and its results, the best first.
set -eu
sweep=$(rota submit "$@" "$(dirname "$0")/train.sh")
rota wait --quiet "$sweep"
index=0
while rota logs "${sweep}_$index" 2>/dev/null; do index=$((index + 1)); done | sort -n
