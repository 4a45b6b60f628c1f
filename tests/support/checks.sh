# tests/support/checks.sh - what the tests in shell share, to be read by `.`: checks that are counted, and the program.
#
# Needs CONCLAVE. Works in the present folder, in the files out and err. Every check is made; the failed ones are named.
checks=0
failures=0
limit_s=${limit_s:-30} # of a run

fail() {
    failures=$((failures + 1))
    echo "FAILED: $*" >&2
    [ ! -s err ] || sed 's/^/    stderr: /' err | head -n 3 >&2
}

# check DESCRIPTION COMMAND...: any condition.
check() {
    checks=$((checks + 1))
    what=$1
    shift
    "$@" || fail "$what"
}

# run STATUS ARGUMENT...: runs the program into the files out and err; its status must be STATUS.
run() {
    wanted=$1
    shift
    status=0
    timeout "$limit_s" "$CONCLAVE" "$@" >out 2>err </dev/null || status=$?
    checks=$((checks + 1))
    [ "$status" -eq "$wanted" ] || fail "conclave $*: exit status $status, not $wanted"
}

# one_line WHAT PATTERN: the last run said that, in one line, and printed nothing.
one_line() {
    [ ! -s out ] || fail "$1: prints something though it failed"
    [ "$(wc -l <err)" -eq 1 ] || fail "$1: says $(wc -l <err) lines, not one"
    grep -q '^conclave.*: ' err || fail "$1: does not say who speaks"
    grep -q -e "$2" err || fail "$1: does not say '$2'"
}
