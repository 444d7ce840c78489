# Sourced by the scripts in script/: the repository's root, the virtual environment and what the
# tests need from the system. Every function can be called again at no cost.

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
VENV=$ROOT/.venv
STAMP=$VENV/.rota-installed
export PIP_DISABLE_PIP_VERSION_CHECK=1

say() { printf '==> %s\n' "$*" >&2; }

die() {
    printf 'error: %s\n' "$*" >&2
    exit 1
}

in_ci() {
    case "${CI:-}" in
        "" | 0 | false) return 1 ;;
        *) return 0 ;;
    esac
}

can_apt() { [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; }

# The package lists are fetched only if the first try does not find the package.
apt_install() {
    say "installing system packages: $*"
    export DEBIAN_FRONTEND=noninteractive
    apt-get install -y -q --no-install-recommends "$@" >&2 ||
        { apt-get update -q >&2 && apt-get install -y -q --no-install-recommends "$@" >&2; }
}

find_python() {
    local name
    for name in ${PYTHON:-} python3 python3.14 python3.13 python3.12 python3.11 python; do
        command -v "$name" >/dev/null || continue
        "$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || continue
        command -v "$name"
        return
    done
    die "no Python 3.11 or newer found; install one or name it in PYTHON"
}

# Debian ships Python without ensurepip. Root fetches the missing package; everybody else borrows
# the pip that belongs to the interpreter.
make_venv() {
    local python version
    python=$(find_python)
    version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    say "making $VENV with $python ($version)"
    "$python" -m venv "$VENV" >/dev/null 2>&1 && return
    rm -rf "$VENV"
    if can_apt && apt_install "python$version-venv" && "$python" -m venv "$VENV"; then
        return
    fi
    rm -rf "$VENV"
    if "$python" -m venv --without-pip "$VENV" &&
        "$python" -m pip --python "$VENV/bin/python" install -q pip; then
        return
    fi
    rm -rf "$VENV"
    die "cannot make a virtual environment: install python$version-venv (Debian, Ubuntu) and try again"
}

# ensure_venv [EXTRAS]: .venv with this project installed in place. It is renewed when
# pyproject.toml changes; an installation with the development extras also serves a plain request.
ensure_venv() {
    local extras=${1:-} target=$ROOT want
    [ -z "$extras" ] || target="$ROOT[$extras]"
    want="$(sha256sum <"$ROOT/pyproject.toml" | cut -d ' ' -f 1) ${extras:-plain}"
    (
        # Two scripts at once must not install into one environment.
        ! command -v flock >/dev/null || flock 9
        [ -x "$VENV/bin/python" ] || make_venv
        if is_installed "$want"; then
            exit 0
        fi
        say "installing ${extras:+with extras $extras }into $VENV"
        rm -f "$STAMP"
        "$VENV/bin/python" -m pip install -q -e "$target" >&2
        printf '%s\n' "$want" >"$STAMP"
    ) 9<"$ROOT/pyproject.toml"
}

is_installed() {
    [ -f "$STAMP" ] || return 1
    local have
    have=$(cat "$STAMP")
    [ "$have" = "$1" ] || { [ "${1##* }" = plain ] && [ "${have%% *}" = "${1%% *}" ]; }
}

has_postgres() {
    local folder
    command -v initdb >/dev/null && command -v postgres >/dev/null && return
    for folder in /usr/lib/postgresql/*/bin /usr/local/bin /usr/local/pgsql/bin; do
        [ -x "$folder/initdb" ] && [ -x "$folder/postgres" ] && return
    done
    return 1
}

# The tests start their own server on a private folder; only the programs must exist.
ensure_postgres() {
    has_postgres && return
    if can_apt && apt_install postgresql && has_postgres; then
        return
    fi
    in_ci && die "no PostgreSQL server programs found and CI is set: install the package postgresql"
    say "no PostgreSQL server programs: the tests that need one are skipped and named at the end"
}

has_network() {
    command -v ip >/dev/null && command -v nsenter >/dev/null
}

# The tests of broken networks run in namespaces of their own, which they make and remove. Bare
# containers have the kernel's TUN devices without the file that opens them.
ensure_network() {
    if [ "$(id -u)" = 0 ] && [ ! -e /dev/net/tun ]; then
        mkdir -p /dev/net && mknod /dev/net/tun c 10 200 || true
    fi
    has_network && return
    if can_apt && apt_install iproute2 util-linux && has_network; then
        return
    fi
    in_ci && die "no ip or nsenter found and CI is set: install the packages iproute2 and util-linux"
    say "no ip or nsenter: the tests of broken networks are skipped and named at the end"
}

has_systemd() { [ -x /lib/systemd/systemd ] && command -v systemd-analyze >/dev/null; }

# The tests of `rota service` start one in namespaces of its own; the machine's is left alone.
ensure_systemd() {
    has_systemd && return
    if can_apt && apt_install systemd && has_systemd; then
        return
    fi
    in_ci && die "no systemd found and CI is set: install the package systemd"
    say "no systemd: the tests that need one are skipped and named at the end"
}

has_torch() {
    "$VENV/bin/python" -c 'import importlib.util, sys; sys.exit(not importlib.util.find_spec("torch"))'
}

# For the gangs that the tests let meet. Only the build for CPUs: the usual one brings gigabytes for
# GPUs along. Where pip does not find it, PIP_EXTRA_INDEX_URL can name an index that has it.
TORCH=torch==2.13.0+cpu

ensure_torch() {
    has_torch && return
    say "installing $TORCH"
    "$VENV/bin/python" -m pip install -q "$TORCH" >&2 && return
    in_ci && die "$TORCH cannot be installed and CI is set"
    say "no torch: the tests that need it are skipped and named at the end"
}

# A client of the Slurm commands, with its own tests, which only its source package has. It asks for
# an older psutil than we do: hence an environment of its own.
PSIJ=psij-python==0.9.11

ensure_psij() {
    local folder=$VENV/psij
    [ -f "$folder/ready" ] && return
    say "installing $PSIJ into $folder"
    rm -rf "$folder"
    if make_psij "$folder" >&2; then
        touch "$folder/ready"
        return
    fi
    rm -rf "$folder"
    in_ci && die "$PSIJ cannot be installed and CI is set"
    say "no psij-python: its tests are skipped and named at the end"
}

make_psij() {
    "$VENV/bin/python" -m venv "$1" &&
        "$1/bin/python" -m pip install -q "$PSIJ" pytest &&
        "$1/bin/python" -m pip download -q --no-deps --no-binary psij-python -d "$1/source" "$PSIJ" &&
        tar -xzf "$1"/source/psij*.tar.gz -C "$1/source"
}

has_chromium() {
    command -v chromium >/dev/null || command -v chromium-browser >/dev/null
}

# The web page is tested in a real browser, the one that the system has; playwright only drives it.
ensure_chromium() {
    has_chromium && return
    if can_apt && apt_install chromium fonts-dejavu-core && has_chromium; then
        return
    fi
    in_ci && die "no Chromium found and CI is set: install the package chromium"
    say "no Chromium: the tests of the web page are skipped and named at the end"
}

# ensure_engines [core]: engines of other makers that the tests start, or those that the core of the
# scenarios needs. What takes minutes is compiled or installed here, once, and kept in a cache;
# packages of the system are fetched by the programs that start an engine.
ensure_engines() {
    local folder=$ROOT/../shared/engines
    [ -d "$folder" ] || return 0
    if [ "$(id -u)" -eq 0 ] && make_engines "$folder" "${1:-}" >&2; then
        return
    fi
    in_ci && die "the engines in $folder cannot be built and CI is set"
    say "no Kubernetes, or no Ray: the tests that need one are skipped and named at the end"
}

make_engines() {
    if [ "$2" = core ]; then
        "$1/kube-up" --build-only
    else
        "$1/kube-up" --kubelet --build-only && "$1/ray-up" --install-only
    fi
}

free_port() {
    "$VENV/bin/python" -c '
import socket
with socket.socket() as probe:
    probe.bind(("127.0.0.1", 0))
    print(probe.getsockname()[1])'
}
