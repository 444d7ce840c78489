"""The fixed parts of the batch script: what runs between Slurm and the program of an attempt.

The script has two parts, and runs itself a second time for the second one. The *watch* waits for
the program, writes down how it ended, and ends the same way, so that Slurm sees the truth. The
*setup* makes the folder, the limits, the files and the environment, and becomes the program.

A signal by ``scancel --full`` reaches watch and program once each: the watch takes no notice.
"""

from __future__ import annotations

#: The exit code of a script that could not start its program; the file ``exit`` says why.
UNSTARTED = 253

#: The folder, below one that is the user's own: its owner could put another in its place.
OWN = r"""
umask 077
own=${folder%/*}
mkdir -p "$folder" && [ -O "$folder" ] && [ -O "$own" ] && [ ! -L "$own" ] || exit 253
"""

#: A shell cannot tell exit code 137 from signal 9, perl can; most nodes have one.
WATCH = r"""
# Only the first to come here runs: two jobs may have one key, and Slurm may start one job twice.
(set -C; echo "$SLURM_JOB_ID" >"$folder/job") 2>/dev/null && rm -f "$folder/exit" || exit 253
if type -P perl >/dev/null; then
    exec perl -e '
        my $folder = shift;
        my @minor = qw(HUP INT QUIT USR1 USR2 TERM ALRM VTALRM PROF XCPU XFSZ PIPE IO PWR);
        $SIG{$_} = sub {} for @minor;
        my $child = fork;
        defined $child or exit 253;
        if (!$child) { exec {$ARGV[0]} @ARGV; exit 253 }
        1 while waitpid($child, 0) != $child;
        my ($code, $signal) = ($? >> 8, $? & 127);
        if (!-e "$folder/exit" && open(my $file, ">", "$folder/exit.new")) {
            print $file $signal ? "signal $signal\n" : "exit $code\n";
            close($file) && rename("$folder/exit.new", "$folder/exit");
        }
        if ($signal) { $SIG{$_} = "DEFAULT" for keys %SIG; kill $signal, $$; sleep 1 }
        exit $code;
    ' "$folder" "$BASH" "$0" setup "$@"
fi
trap : HUP INT QUIT USR1 USR2 TERM ALRM VTALRM PROF XCPU XFSZ PIPE IO PWR
"$BASH" "$0" setup "$@"
code=$?
signal=$((code > 128 && code <= 192 ? code - 128 : 0))
if [ ! -e "$folder/exit" ]; then
    if [ $signal != 0 ]; then echo "signal $signal"; else echo "exit $code"; fi >"$folder/exit.new"
    mv "$folder/exit.new" "$folder/exit"
fi
if [ $signal != 0 ]; then trap - $signal; kill -$signal $$; fi
exit $code
"""

#: Where the members of a gang meet: the address by which Slurm itself finds the first node.
FIRST = r"""
first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
address=$(scontrol show node "$first" | sed -n 's/.*NodeAddr=\([^ ]*\).*/\1/p' | head -n 1)
export ROTA_FIRST=${address:-$first}
"""

#: The first member's file tells of the whole gang: of a start that failed, or the worst code.
WHOLE = r"""
end="exit $code"
for each in "${folders[@]}"; do
    read -r line 2>/dev/null <"$each/exit"
    case $line in start*) end=$line; break ;; esac
done
printf '%s\n' "$end" >"${folders[0]}/exit.new" && mv "${folders[0]}/exit.new" "${folders[0]}/exit"
case $end in start*) exit 253 ;; esac
exit $code
"""

#: ``fail job WHY`` or ``fail node WHY``: for whose sake it did not start.
SETUP = r"""
umask 077
fail() {
    printf 'start %s %s\n' "$1" "$2" >"$folder/exit.new" && mv "$folder/exit.new" "$folder/exit"
    exit 253
}
stored() { base64 -d >"$folder/$1" || fail node "$folder/$1: cannot be written"; }
limit() {
    ulimit -S "$1" "$2" 2>/dev/null || ulimit "$1" "$2" 2>/dev/null ||
        fail job "ulimit $3: above the hard limit"
}
opened() {
    [ -z "$2" ] || mkdir -p -- "$(dirname -- "$1")" 2>/dev/null ||
        fail job "$3 file $1: its folder cannot be made"
    if [ "$2" = truncate ]; then : >"$1"; else : >>"$1"; fi 2>/dev/null ||
        fail job "$3 file $1: cannot be written"
}
enter() {
    cd -- "$1" 2>/dev/null && return
    if [ -d "$1" ]; then fail job "working folder $1: permission denied"; fi
    fail job "working folder $1: no such directory"
}
"""

#: After this, what is left of the environment is Slurm's own word on the job and its devices. A job
#: that names no PATH has none, and its program is found as our own agents find it.
PURGE = r"""
env=$(type -P env)
export -n PATH=/usr/local/bin:/usr/bin:/bin
for name in $(compgen -e); do
    case $name in
    SLURM_EXPORT_ENV) unset -v "$name" ;;
    SLURM*|CUDA_VISIBLE_DEVICES|GPU_DEVICE_ORDINAL) ;;
    ROCR_VISIBLE_DEVICES|HIP_VISIBLE_DEVICES|ZE_AFFINITY_MASK) ;;
    *) unset -v "$name" 2>/dev/null ;;
    esac
done
"""

#: How many members of a gang this node has, of a list such as ``2(x3),1``.
BESIDE = r"""
beside=0 nodes=0
for part in ${SLURM_STEP_TASKS_PER_NODE//,/ }; do
    times=1
    case $part in *x*) times=${part#*x} times=${times%)} ;; esac
    nodes=$((nodes + times))
    if [ "$SLURM_NODEID" -lt $nodes ]; then beside=${part%%(*}; break; fi
done
"""

#: Says what a shell would say, before the program takes its place.
BEGIN = r"""
echo "$SLURM_JOB_ID $SLURMD_NODENAME $$" >"$folder/program"
case $1 in
*/*) [ -e "$1" ] || fail job "command not found: $1"
    [ -f "$1" ] && [ -x "$1" ] || fail job "cannot execute $1: permission denied" ;;
*) program=$(type -P -- "$1") || fail job "command not found: $1"
    case $(declare -p PATH) in declare\ -x*) ;; *) shift; set -- "$program" "$@" ;; esac ;;
esac
"""
