#!/bin/sh
# The scripts of examples/fencing: growing tokens are accepted, old ones refused, with many writers
# at once.
#
# Needs CONCLAVE and SOURCE_ROOT. With CV_TEST_POSTGRES_ADMIN (tools/with-servers postgres) the row
# is in PostgreSQL, otherwise in SQLite, if sqlite3 is installed.
set -eu

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
export CONCLAVE_STATE="$work/state"
here=$SOURCE_ROOT/examples/fencing
failures=0

fail() {
    failures=$((failures + 1))
    echo "FAILED: $*" >&2
}

# with TOKEN STATUS COMMAND...
with() {
    token=$1 wanted=$2 status=0
    shift 2
    CONCLAVE_TOKEN=$token "$@" >out 2>err || status=$?
    [ "$status" -eq "$wanted" ] || fail "token $token: $*: status $status, not $wanted: $(cat err)"
    [ "$wanted" -ne 75 ] || grep -q 'too old' err || fail "$*: does not say why"
}

# many COMMAND...: forty at once, with tokens 100 to 119 twice each.
many() {
    for token in $(seq 100 119) $(seq 119 -1 100); do
        CONCLAVE_TOKEN=$token "$@" >/dev/null 2>&1 &
    done
    wait
}

# ---- a script ---------------------------------------------------------------------------------------

with 5 0 "$here/script.sh" fence sh -c 'echo $CONCLAVE_TOKEN >>log'
with 5 0 "$here/script.sh" fence sh -c 'echo $CONCLAVE_TOKEN >>log'
with 7 0 "$here/script.sh" fence sh -c 'echo $CONCLAVE_TOKEN >>log'
with 6 75 "$here/script.sh" fence sh -c 'echo $CONCLAVE_TOKEN >>log'
with 7 3 "$here/script.sh" fence sh -c 'exit 3'
many "$here/script.sh" fence sh -c 'echo $CONCLAVE_TOKEN >>log'
sort -cn log || fail "a script with an old token was run: $(tr '\n' ' ' <log)"
[ "$(tail -n 1 log) $(cat fence)" = "119 119" ] || fail "the last one was not run"
with abc 2 "$here/script.sh" fence sh -c 'echo $CONCLAVE_TOKEN >>log'
with 99999999999999999999 2 "$here/script.sh" fence sh -c 'echo $CONCLAVE_TOKEN >>log'
with 120 2 "$here/script.sh" fence
for wrong in 'no token' '' 99999999999999999999; do
    echo "$wrong" >foreign
    with 120 2 "$here/script.sh" foreign sh -c 'echo $CONCLAVE_TOKEN >>log'
done
[ "$(tail -n 1 log) $(cat fence)" = "119 119" ] || fail "a token that is not a number was accepted"
"$CONCLAVE" run fenced -- "$here/script.sh" own sh -c 'echo ran' >out
[ "$(cat out) $(cat own)" = "ran 1" ] || fail "conclave run gives no token"

# ---- a file -----------------------------------------------------------------------------------------

# put TOKEN STATUS TEXT
put() {
    echo "$3" >in
    with "$1" "$2" sh -c '"$0" file <in' "$here/file.sh"
}
put 5 0 five
put 5 0 'five again'
put 7 0 seven
put 6 75 six
[ "$(cat file)" = "$(printf '7\nseven')" ] || fail "the file holds $(cat file)"
many sh -c 'echo "by $CONCLAVE_TOKEN" | "$0" file' "$here/file.sh"
[ "$(cat file)" = "$(printf '119\nby 119')" ] || fail "the file holds $(cat file)"
put abc 2 letters
[ "$(cat file)" = "$(printf '119\nby 119')" ] || fail "a token that is not a number was accepted"
echo 'not written by file.sh' >foreign
with 120 2 sh -c '"$0" foreign <in' "$here/file.sh"
[ "$(cat foreign)" = 'not written by file.sh' ] || fail "a foreign file was replaced"
[ "$(stat -c %a file)" = "$(stat -c %a in)" ] || fail "the file cannot be read by those who can read others"
chmod 640 file
put 120 0 'another mode'
[ "$(stat -c %a file)" = 640 ] || fail "the file lost its mode"
[ "$(echo foreign.*)" = foreign.lock ] || fail "files are left behind: $(echo foreign.*)"
[ "$(echo file.*)" = file.lock ] || fail "files are left behind: $(echo file.*)"

# ---- a row ------------------------------------------------------------------------------------------

SQL=
if [ -n "${CV_TEST_POSTGRES_ADMIN:-}" ]; then
    SQL="psql -qAtX -v ON_ERROR_STOP=1 '$CV_TEST_POSTGRES_ADMIN'"
elif command -v sqlite3 >/dev/null; then
    SQL='sqlite3 -bail -cmd ".timeout 20000" row.db'
fi
if [ -n "$SQL" ]; then
    export SQL
    eval "$SQL" <"$here/row.sql"
    with 5 0 "$here/row.sh" 1
    with 5 0 "$here/row.sh" 1
    with 7 0 "$here/row.sh" 1
    with 6 75 "$here/row.sh" 100
    with 6 2 "$here/row.sh" '1; DELETE FROM job'
    with 99999999999999999999 2 "$here/row.sh" 1
    with 7 2 "$here/row.sh" 99999999999999999999
    [ "$(echo 'SELECT balance, fence FROM job' | eval "$SQL")" = '3|7' ] || fail "the row is wrong"
    many "$here/row.sh" 1
    fence=$(echo 'SELECT fence FROM job' | eval "$SQL")
    [ "$fence" = 119 ] || fail "the row holds the token $fence"
fi

[ "$failures" -eq 0 ] || exit 1
echo "fencing: all is well${SQL:+, with ${SQL%% *}}"
