#!/bin/sh
# The same seed gives the same bytes, whichever compiler made the program.
#
# Needs CONCLAVE (made by gcc), CONCLAVE_CLANG (made by clang) and SOURCE_ROOT.
set -eu

clang=${CONCLAVE_CLANG:-$SOURCE_ROOT/build-clang/conclave}
if [ ! -x "$clang" ]; then
    echo "no clang build to compare with; make test builds one" >&2
    exit 77
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
compared=0
find "$SOURCE_ROOT/tests/scenario" -name '*.scn' | sort >"$work/scenarios"

while read -r scenario; do
    for seed in 1 7 4711; do
        # A scenario may fail with a seed it was not written for; then the failures are compared.
        status_gcc=0
        status_clang=0
        "$CONCLAVE" sim --json --seed "$seed" "$scenario" >"$work/gcc" 2>&1 || status_gcc=$?
        "$clang" sim --json --seed "$seed" "$scenario" >"$work/clang" 2>&1 || status_clang=$?
        if [ "$status_gcc" -gt 1 ] || [ "$status_clang" -ne "$status_gcc" ]; then
            echo "FAILED: $scenario, seed $seed: exit status $status_gcc and $status_clang" >&2
            head -n 5 "$work/gcc" >&2
            exit 1
        fi
        if ! cmp -s "$work/gcc" "$work/clang"; then
            echo "FAILED: $scenario, seed $seed: gcc and clang differ" >&2
            exit 1
        fi
        compared=$((compared + 1))
    done
done <"$work/scenarios"

echo "$compared runs compared"
[ "$compared" -gt 0 ]
