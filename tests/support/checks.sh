# tests/support/checks.sh - shared by tests in shell, which read it by `.`: counted checks, and
# running the program.
#
# Needs CONCLAVE. Works in the present folder, in the files out and err. Every check runs; failed
# ones are named.
checks=0
failures=0
limit_s=${limit_s:-30} # the longest that a run may take

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

# one_line WHAT PATTERN: the last run printed one line on stderr, which matches, and nothing on
# stdout.
one_line() {
    [ ! -s out ] || fail "$1: prints something on stdout though it failed"
    [ "$(wc -l <err)" -eq 1 ] || fail "$1: says $(wc -l <err) lines, not one"
    grep -q '^conclave.*: ' err || fail "$1: the line does not begin with 'conclave'"
    grep -q -e "$2" err || fail "$1: does not say '$2'"
}
