#!/usr/bin/env bash
# Cost of allocations and launches, natively and under the preload, side by side (nanoseconds).
#
#   scripts/bench/alloc.sh [path of libvshare.so] [seconds per phase]
#
# Needs a GPU with 2 GiB free and a C compiler. VSHARE_* of the caller reach the second run; budget and limit default to 4 GiB.
set -euo pipefail
case ${1-} in
-h | --help)
    echo 'usage: scripts/bench/alloc.sh [path of libvshare.so] [seconds per phase]'
    exit 0
    ;;
esac
here=$(cd "$(dirname "$0")" && pwd)
library=${1:-$here/../../target/release/libvshare.so}
seconds=${2:-15}
[ -f "$library" ] || { echo "no $library: build it with cargo build --release" >&2; exit 2; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
${CC:-cc} -std=gnu11 -O2 -o "$work/alloc" "$here/alloc.c" -ldl

echo "native ..." >&2
env -u LD_PRELOAD "$work/alloc" "$seconds" >"$work/native"
echo "preload ..." >&2
VSHARE_BUDGET=${VSHARE_BUDGET:-4GiB} VSHARE_LIMIT=${VSHARE_LIMIT:-4GiB} LD_PRELOAD=$(realpath "$library") "$work/alloc" "$seconds" >"$work/preload" &
wait $!
rm -f "/dev/shm/vshare-$(id -u)-$!-"*

awk -F'\t' '
    function show(name, n, a, b,    i) {
        printf "%-34s", name
        for (i = 3; i <= 7; i++) printf " | %9s %9s", a[i], b[i]
        printf " | %.3g\n", (b[8] > 0 && a[8] > 0) ? b[8] / a[8] : 0
    }
    NR == FNR { native[$1] = $0; order[++count] = $1; next }
    { preload[$1] = $0 }
    END {
        printf "%-34s | %19s | %19s | %19s | %19s | %19s | mean ratio\n", "nanoseconds: native, preload", "p50", "p90", "p99", "p99.9", "max"
        for (k = 1; k <= count; k++) {
            name = order[k]
            split(native[name], a, "\t")
            delete b
            if (name in preload) split(preload[name], b, "\t")
            show(name, a[2], a, b)
        }
    }' "$work/native" "$work/preload"
