#!/bin/sh
# `conclave run` and related commands with wrong arguments: each ends soon, with the documented
# status, one line on stderr, nothing on stdout, and nothing lost.
#
# Needs CONCLAVE. Uses the embedded store, and ports where nobody listens; no server, no network.
# Every check runs; failed ones are named at the end.
set -u

. "$(dirname "$0")/../support/checks.sh"
examples=$(cd "$(dirname "$0")/../../examples" && pwd)
work=$(mktemp -d)
small=$work/small
holder=
clean_up() {
    [ -z "$holder" ] || kill "$holder" 2>/dev/null
    umount "$small" 2>/dev/null
    rm -rf "$work"
}
trap clean_up EXIT
cd "$work" || exit 1
export CONCLAVE_STATE="$work/state"

# await_leader ELECTION: waits until `status`, in the file out, shows a leader.
await_leader() {
    tries=0
    until "$CONCLAVE" status "$1" >out 2>err || [ $tries -ge 100 ]; do
        tries=$((tries + 1))
        sleep 0.1
    done
}

# fails STATUS PATTERN ARGUMENT...
fails() {
    wanted_status=$1 pattern=$2
    shift 2
    run "$wanted_status" "$@"
    one_line "conclave $*" "$pattern"
}

# runs TEXT ARGUMENT...: the command was run and printed that; nothing on stderr.
runs() {
    text=$1
    shift
    run 0 "$@"
    [ "$(cat out)" = "$text" ] || fail "conclave $*: prints '$(cat out)', not '$text'"
    [ ! -s err ] || fail "conclave $*: prints something on stderr though it succeeded"
}

repeated() { # repeated CHARACTER COUNT
    printf "%$2s" '' | tr ' ' "$1"
}

has_store() {
    "$CONCLAVE" stores | grep -A 1 "^$1\$" | grep -qv -e "^$1\$" -e 'not installed'
}

# ---- the cleanup ------------------------------------------------------------------------------------

runs 'work
clean finished 1 tidy' run tidy --cleanup 'echo clean $CONCLAVE_REASON $CONCLAVE_TOKEN $CONCLAVE_ELECTION' -- echo work
run 0 run tidy --verbose -- true
check '--verbose says how a leadership ended' sh -c 'tail -n 1 err | grep -q "^conclave: tidy: leadership given up (finished)$"'
for signal in TERM HUP; do
    "$CONCLAVE" run tidy --verbose --cleanup 'echo $CONCLAVE_REASON >ended' --on-lost 'echo $CONCLAVE_REASON >lost' -- \
        sh -c 'echo $PPID >up; exec sleep 99' 2>told &
    holder=$!
    until [ -s up ]; do sleep 0.02; done
    kill -$signal "$holder"
    wait "$holder" || true
    holder=
    rm up
    [ "$(cat ended)" = resigned ] || fail "the cleanup of a run that was told to end: $(cat ended)"
    [ "$(cat lost)" = resigned ] || fail "the hook of a run that was told to end: $(cat lost)"
    check "--verbose says it of SIG$signal, too" grep -q '^conclave: tidy: leadership given up (resigned)$' told
    run 0 history tidy
    check "the history of a run that got SIG$signal" sh -c 'tail -n 1 out | grep -q " resigned "'
done
run 3 run tidy --cleanup 'exit 7' -- sh -c 'exit 3'
one_line 'a cleanup that fails' 'tidy: the cleanup failed with status 7$'
run 0 run tidy --lease 1s --cleanup 'sleep 99' --cleanup-time 50ms -- true
one_line 'a cleanup that hangs' 'tidy: the cleanup failed with status 137; a cleanup that takes longer than'
fails 127 'cannot run' run tidy --cleanup 'echo clean' -- ./not-there
for nothing in '' ' '; do
    fails 2 "--cleanup takes a command, not '$nothing'" run tidy --cleanup "$nothing" -- true
done
fails 2 'cleanup-time needs --cleanup' run tidy --cleanup-time 1s -- true
fails 2 'longer than 0' run tidy --cleanup true --cleanup-time 0 -- true
fails 2 'grace 2s and --cleanup-time 1s together are too long for --lease 5s.*use 2s or less, or --lease 7.5s' \
    run tidy --grace 2s --cleanup true --cleanup-time 1s -- true

# ---- the command line -----------------------------------------------------------------------------

use='use: conclave run NAME \[OPTIONS\] -- COMMAND'
run 0 run --help
for option in $(sed -n 's/\\-/-/g; /^\.SH OPTIONS/,/^\.SH JOBS/p' "$examples/../docs/man/conclave-run.1" |
    grep -o -e '--[a-z][a-z-]*' | grep -v -e '--help' | sort -u); do
    check "run --help has $option" grep -q -e "$option" out
done
fails 2 "$use" run
fails 2 "$use" run x
fails 2 "$use" run x --
fails 2 "$use" run --lease 5s
fails 2 "the name of an election before '--'" run -- true
fails 2 "the name of an election before '--'" run -n -- x true
fails 2 "unknown option '--nosuch'; --help lists" run x --nosuch -- true
fails 2 "option '--via' requires an argument" run x --via
fails 2 "option '-w' requires an argument" run x -w
fails 2 "unknown option '--leas-time'; --help lists" run x --leas-time=1 -- true
fails 2 "unknown option '--hlep'; did you mean '--help'?" --hlep
fails 2 "unknown option '--verison'; did you mean '--version'?" --verison
fails 2 "unknown option '--crash'; did you mean '--budget'?" explore lease --crash 1
fails 2 "unknown option '--leese'; did you mean '--lease'?" run x --leese=1s -- true
fails 2 "unknown option '--timezone'; did you mean '--zone'?" run x --every 1d --timezone UTC -- true
fails 2 "unknown option '--ttl'; did you mean '--lease'?" run x --ttl 5 -- true
fails 2 "unknown store 'zk'; did you mean 'zookeeper'?" run x --via zk://localhost -- true
fails 2 "unknown store 'pg'; did you mean 'postgres'?" status --via pg://localhost/x
if has_store postgres; then
    fails 2 "unknown address option 'sslmod'; did you mean 'sslmode'?" status --via 'postgres://h/x?sslmod=require'
    fails 2 'invalid URI query parameter: "frobnicate"' status --via 'postgres://h/x?frobnicate=1'
fi
fails 2 "unknown option '-z'" run x -z -- true
for code in 256 -1 x '' 1x; do
    fails 2 "-E takes a whole number from 0 to 255, not '$code'" run x -E "$code" -- true
done
for time in x '' 5parsecs -5s 99999999999999999999s; do
    fails 2 "--wait takes a time like 500ms, 5s, 2min or 1h, not '$time'" run x -w "$time" -- true
    fails 2 "--lease takes a time like 500ms, 5s, 2min or 1h, not '$time'" run x --lease "$time" -- true
    fails 2 "--grace takes a time like 500ms, 5s, 2min or 1h, not '$time'" run x --grace "$time" -- true
done
fails 2 'lease must be longer than 0 s' run x --lease 0 -- true
fails 2 'a lease of 1ms is too short for sqlite: at least 100ms' run x --lease 1ms -- true
fails 2 'a lease of 25 h is too long: at most 24 h' run x --lease 25h -- true
fails 2 '--grace 3s is too long for --lease 5s' run x --grace 3s -- true
fails 2 '--grace 1s is too long for --lease 1s' run x --lease 1s --grace 1s -- true
if has_store zookeeper; then # a grant is good for half of the lease there
    fails 2 '--grace 2s is too long' run x --grace 2s --via zookeeper://127.0.0.1:1/x -- true
fi

# The name may stand anywhere before the command; words after the command's name are its own.
runs 'hi -n' run x echo hi -n
runs 'x -- y' run x -- echo x -- y
runs '-- y' run x echo -- y
runs hi run -n --lease 2s x --grace 500ms -- echo hi
runs hi run --lease=2000ms x echo hi
runs --help run x sh -c 'echo "$1"' sh --help
runs -h run x -n -- echo -h
run 0 run x --help
check '--help before the command is for conclave' grep -q '^usage: conclave run' out

# ---- names ----------------------------------------------------------------------------------------

name_rule='name must be 1 to 255 bytes of text without control characters'
for name in '' "$(printf 'a\nb')" "$(printf 'a\tb')" "$(printf '\177')" "$(printf '\377')" \
    "$(printf '\300\257')" "$(repeated a 256)" "$(repeated a 300)"; do
    fails 2 "$name_rule" run "$name" -- true
    fails 2 'is not a valid name of an election' status "$name"
    fails 2 'the name of one election' resign "$name"
    fails 2 'the name of one election' history "$name"
    fails 2 "$name_rule" watch "$name"
done
fails 2 "'no.x0asuch.x09address' is not an address" run x --via "$(printf 'no\nsuch\taddress')" -- true
for name in "$(repeated a 255)" 'a b' ' ' '../../etc/passwd' '/' '.' "o'clock; DROP TABLE x" '%s%n' \
    'Wahl für Ämter ✓' '*'; do
    runs "$name" run "$name" -- sh -c 'printf "%s\n" "$CONCLAVE_ELECTION"'
    run 1 status "$name"
    check "status of '$name'" grep -qF -e "$name: nobody leads (last token " out
    run 0 history "$name"
    check "one leadership of '$name'" [ "$(wc -l <out)" -eq 2 ]
done
node_rule="the node's name must be 1 to 127 bytes of text, and not '\\*'"
for node in '' '*' "$(printf 'a\nb')" "$(repeated n 128)"; do
    fails 2 "$node_rule" run x --node "$node" -- true
done
runs "$(repeated n 127)" run x --node "$(repeated n 127)" -- sh -c 'echo "$CONCLAVE_NODE"'

# ---- addresses ------------------------------------------------------------------------------------

for verb in 'run x' 'status x' 'history x' 'resign x' explain 'store init'; do
    command=
    [ "$verb" != 'run x' ] || command='-- true'
    via=--via
    case $verb in explain | store*) via= ;; esac
    for address in '' /tmp/x.db sqlite; do
        fails 2 "'$address' is not an address; write it like sqlite:FILE" $verb $via "$address" $command
    done
    for address in : '://'; do
        fails 2 'this is not an address' $verb $via "$address" $command
    done
    fails 2 "unknown store 'nosuch'; known: sqlite, postgres, etcd, zookeeper" \
        $verb $via nosuch:x $command
    fails 2 "unknown store 'sqlit'; did you mean 'sqlite'?" $verb $via sqlit: $command
done
for verb in 'run x' 'run x --check' 'status x' status 'watch x' 'history x' 'resign x' 'forget x' doctor explain 'store init' \
    'elect x'; do
    command=
    case $verb in run*) command='-- true' ;; esac
    via=--via
    case $verb in explain | store*) via= ;; esac
    fails 2 "'sqlite:' names no file; write sqlite:PATH" $verb $via sqlite: $command
    fails 2 "'sqlite:odd?lease=3s' has an option, but sqlite: has none" $verb $via 'sqlite:odd?lease=3s' $command
    fails 2 "'sqlite:$PWD/odd?x' has an option" $verb $via "sqlite:$PWD/odd?x" $command
done
check 'an option is not part of the name of a file' [ ! -e 'odd?lease=3s' ]
mkdir 'folder?'
run 0 run x --via "sqlite:$PWD/folder?/odd.db" -- true
check 'no address names a file without a name' [ ! -e .alive ]
group='multicast:239.1.1.1:7000'
fails 2 "'$group' does not promise at-most-one-leader: .*; use 'conclave elect'" \
    run x --via "$group?insecure" -- true
for verb in status history resign; do
    fails 2 "'$group' is not a store, and this command needs one; 'conclave watch' shows" \
        $verb x --via "$group?insecure"
done
fails 2 "'$group' has no lease" elect x --via "$group?insecure" --lease 2s

# Nobody listens on port 1. The time is bounded: -n needs an answer, -w that long and a second.
for store in postgres etcd zookeeper; do
    address=$store://127.0.0.1:1/x
    refused='onnect' # each client has its own error text
    has_store $store || refused='not installed'
    begin=$(date +%s)
    fails 125 "$refused" run x -n --via $address -- true
    fails 125 "$refused" run x -w 0.5 --via $address -- true
    fails 2 "$refused" status x --via $address
    fails 2 "$refused" resign x --via $address
    check "$store: bounded" [ $(($(date +%s) - begin)) -le 20 ]
done

# A server that lets everybody in and never answers: not the status 1 of an election that another one won.
python3 -c 'import socket, time
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
time.sleep(1000)' >silent &
holder=$!
until [ -s silent ]; do sleep 0.02; done
for store in postgres etcd zookeeper; do
    if has_store $store; then
        fails 125 'not answer\|in time' run x -w 300ms --via "$store://127.0.0.1:$(cat silent)/x" -- true
    fi
done
fails 125 'not installed\|not answer\|in time' run x -w 1s --via "etcd://127.0.0.1:$(cat silent)/x" -- true
kill "$holder"
wait "$holder"
holder=
if has_store postgres; then
    fails 2 "$refused" history x --via postgres://127.0.0.1:1/x
    fails 2 "$refused" store init postgres://127.0.0.1:1/x
    fails 2 'address of PostgreSQL: ' run x --via postgres://h/x?nosuch=1 -- true
    for address in postgres://root:secret@127.0.0.1:1/x 'postgres://127.0.0.1:1/x?password=secret'; do
        fails 2 'every user can read command lines' run x --via "$address" -- true
        fails 2 'every user can read command lines' store init "$address"
        fails 2 'every user can read command lines' explain "$address"
    done
fi
if has_store etcd; then
    fails 2 'every user can read command lines' run x --via etcd://root:secret@127.0.0.1:1 -- true
    fails 2 'every user can read command lines' explain etcd://root:secret@127.0.0.1:1
    fails 2 'every user can read command lines' explain 'etcd://root:secret@127.0.0.1:1?cacert=no-file'
    run 0 explain 'etcd://root@127.0.0.1:1?cacert=no-file'
    check 'explain needs no password' [ ! -s err ]
    fails 2 "option 'nosuch'" explain 'etcd://127.0.0.1:1?nosuch=1'
    fails 2 "no password for etcd's user 'root'" run x --via etcd://root@127.0.0.1:1 -- true
    fails 125 "cannot read 'no-file'" run x --via 'etcd://127.0.0.1:1?cacert=no-file' -- true
    fails 2 "option 'nosuch'" run x --via 'etcd://127.0.0.1:1?nosuch=1' -- true
    fails 2 'write etcd://host:port' run x --via etcd: -- true
    fails 2 'etcd: cannot connect to 127.0.0.1:1: connection refused' status --via etcd://127.0.0.1:1
fi
if has_store zookeeper; then
    fails 2 'names no user' run x --via zookeeper://root:secret@127.0.0.1:1 -- true
    fails 2 'names no user' explain zookeeper://root:secret@127.0.0.1:1
    fails 2 'write zookeeper://host:port' run x --via zookeeper: -- true
fi

# ---- files that cannot be used --------------------------------------------------------------------

fails 125 "cannot open '/proc/x.db': " run x --via sqlite:/proc/x.db -- true
fails 125 "cannot open 'no/such/x.db': No such file or directory" run x --via sqlite:no/such/x.db -- true
fails 125 "cannot open '\.': Is a directory" run x --via sqlite:. -- true
for verb in status history resign; do
    fails 2 "cannot open 'no/such/x.db': No such file or directory" $verb x --via sqlite:no/such/x.db
done
fails 2 "cannot open 'no/such/x.db': No such file or directory" store init sqlite:no/such/x.db
export CONCLAVE_STATE=/proc/conclave
fails 125 "cannot create the state folder '/proc/conclave': " run x -- true
export CONCLAVE_STATE=
(
    unset XDG_STATE_HOME HOME
    fails 2 'no state folder: neither CONCLAVE_STATE, XDG_STATE_HOME nor HOME is set' run x -- true
    exit "$failures"
)
failures=$?
export CONCLAVE_STATE="$work/state"

# A folder of another user. Root may write anywhere, so it becomes another user.
mkdir -m 555 locked
chmod 755 .
as_nobody='env'
if [ "$(id -u)" = 0 ]; then
    as_nobody='setpriv --reuid=65534 --regid=65534 --clear-groups'
fi
if $as_nobody test -x "$CONCLAVE" 2>/dev/null; then
    conclave=$CONCLAVE
    cat >as-nobody <<EOF
#!/bin/sh
exec $as_nobody "$conclave" "\$@"
EOF
    chmod 755 as-nobody
    CONCLAVE=$work/as-nobody
    fails 125 "cannot open '$work/locked/x.db': Permission denied" run x --via "sqlite:$work/locked/x.db" -- true
    : >unprepared.db
    chmod 644 unprepared.db
    $as_nobody test -w unprepared.db || fails 2 "cannot prepare '$work/unprepared.db': Permission denied" store init "sqlite:$work/unprepared.db"
    # A file that this user may only read: said at once, and not only when the leader is gone. It leads when it may write.
    mkdir -m 777 barred
    barred=$work/barred/x.db
    "$CONCLAVE" run x --via "sqlite:$barred" -- sh -c 'while [ ! -e go-on ]; do sleep 0.02; done' &
    leader=$!
    until "$CONCLAVE" status x --via "sqlite:$barred" >out 2>err; do sleep 0.02; done
    $as_nobody chmod a-w "$barred"
    fails 125 "cannot write '$barred': Permission denied" run x -n --via "sqlite:$barred" -- true
    "$CONCLAVE" run x --via "sqlite:$barred" -- echo second >second.out 2>second.err &
    holder=$!
    tries=0
    until [ -s second.err ] || [ $tries -ge 500 ]; do
        tries=$((tries + 1))
        sleep 0.02
    done
    check 'a waiting contender says that it may not write' \
        grep -q "cannot write '$barred': Permission denied" second.err
    $as_nobody chmod u+w "$barred"
    touch go-on
    wait "$leader"
    tries=0
    until [ -s second.out ] || [ $tries -ge 500 ]; do
        tries=$((tries + 1))
        sleep 0.02
    done
    check 'and leads when it may' [ "$(cat second.out)" = second ]
    kill "$holder" 2>/dev/null
    wait "$holder"
    holder=
    CONCLAVE=$conclave
else
    echo 'skipped: a folder without permission' # the build tree is not open to others
fi

# Files that are not SQLite databases, or are damaged: refused, and left as they are.
head -c 9000 "$CONCLAVE" >foreign.db
printf 'SQLite format 3\0' >short.db
run 0 run x --via sqlite:damaged.db -- true
python3 - <<'PYTHON'
import sqlite3
db = sqlite3.connect("damaged.db")
db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
db.close()
with open("damaged.db", "r+b") as file:  # the pages after the first, which has the schema
    file.seek(0, 2)
    size = file.tell()
    file.seek(4096)
    file.write(b"\x5a" * (size - 4096))
PYTHON
rm -f damaged.db-wal damaged.db-shm
for file in foreign short damaged; do
    cp $file.db $file.copy
    fails 125 "'.*$file.db': .*\(not a database\|malformed\)" run x -n --via sqlite:$file.db -- true
    fails 2 "'.*$file.db': .*\(not a database\|malformed\)" status x --via sqlite:$file.db
    check "$file.db is left as it is" cmp -s $file.db $file.copy
done
(umask 077 && : >empty.db)
runs fine run x --via sqlite:empty.db -- echo fine

# A full disk: what was there before is there afterwards.
full="cannot .* '.*x.db': .*\(disk is full\|disk I/O error\)"
mkdir limited
(
    trap '' XFSZ
    ulimit -f 16 # blocks of 512 bytes
    fails 125 "$full" run x -n --via "sqlite:limited/x.db" -- true
    exit "$failures"
)
failures=$?
mkdir small
if mount -t tmpfs -o size=1m tmpfs "$small" 2>/dev/null; then
    runs first run x --via "sqlite:$small/x.db" -- echo first
    dd if=/dev/zero of="$small/filling" bs=4k 2>/dev/null
    fails 125 "$full" run x -n --via "sqlite:$small/x.db" -- echo second
    fails 125 "$full" run x -w 0.3 --via "sqlite:$small/x.db" -- echo second
    fails 125 "$full" run y -n --via "sqlite:$small/x.db" -- echo second
    run 1 doctor --via "sqlite:$small/x.db"
    check 'the doctor says what a full disk needs' grep -q 'to do: free some space on the disk' out
    fails 125 "cannot .* '.*elections.db': .*\(disk is full\|disk I/O error\)" \
        run x -n --via "sqlite:$small/elections.db" -- echo second
    run 0 history x --via "sqlite:$small/x.db"
    check 'the trail can be read on a full disk' [ "$(wc -l <out)" -eq 2 ]
    rm "$small/filling"
    runs third run x --via "sqlite:$small/x.db" -- echo third
    run 0 history x --via "sqlite:$small/x.db"
    check 'and goes on afterwards' [ "$(wc -l <out)" -eq 3 ]
    mount -o remount,ro "$small"
    fails 125 'Read-only file system' run x -n --via "sqlite:$small/x.db" -- echo fourth
    umount "$small"
else
    echo 'skipped: a small file system of our own' # needs the right to mount
fi

fails 125 "cannot create the FIFO 'no/such/fifo': No such file or directory" run x --fifo no/such/fifo -- true
: >file
fails 125 "'file' exists, but is not a FIFO" run x --fifo file -- true

# ---- jobs ------------------------------------------------------------------------------------------

fails 2 "'5h'\|divides a day" run x --every 5h -- true
fails 2 '1s to 366d' run x --every 0s -- true
fails 2 "unknown option '--time-zone'; did you mean '--zone'" run x --every 1d --time-zone UTC -- true
fails 2 "not 'often'" run x --every often -- true
fails 2 "not '0.5s'" run x --every 0.5s -- true
fails 2 'offset must be shorter' run x --every 1d --offset 1d -- true
fails 2 'half of --every' run x --every 1h --tolerance 31min -- true
fails 2 "unknown time zone 'Mars/Olympus'" run x --every 1d --zone Mars/Olympus -- true
fails 2 'unknown time zone' run x --every 1d --zone ../../etc/passwd -- true
fails 2 '\-\-retry takes a whole number' run x --every 1d --retry often -- true
fails 2 'leave out --retry' run x --every 1d --at-most-once --retry 1 -- true
fails 2 'zone needs --every' run x --zone UTC -- true
fails 2 'at-most-once needs --every' run x --at-most-once -- true
fails 2 'is not a store' run x --every 1d --via 'multicast:239.1.2.3:4567?insecure=yes' -- true
run 0 run job --every 1d --zone Europe/Berlin --node one -- sh -c 'echo "${TZ-none}" >>jobs'
run 0 run job --every 1d --zone Europe/Berlin -- sh -c 'echo twice >>jobs'
check 'a job is run once, and the command has its own zone' [ "$(cat jobs)" = "${TZ-none}" ]
run 0 history job
check 'the history has the run' grep -q '00:00:00 +0[12]00 .* 0 *[0-9]* *one$\|one$' out
shortest=1000 # a runner that is killed before its record is repeated, so it must not wait with the record
for try in 1 2 3 4 5 6 7 8 9 10; do
    run 0 run "prompt$try" --every 1d -- sh -c 'date +%s.%N >ended'
    run 0 history "prompt$try" --json
    lasted=$(python3 -c 'import json, sys
end = [run["end_unix_s"] for run in json.load(open("out")) if "period_unix_s" in run][0]
print(min(int(sys.argv[1]), int(1000 * (end - float(open("ended").read())))))' "$shortest")
    shortest=${lasted:-$shortest}
done
check "the end of a run is recorded at once, not after $shortest ms" [ "$shortest" -lt 80 ]
fails 127 "cannot run 'no-such-command'" run broken --every 1d --retry 0 -- no-such-command
fails 1 'failed with status 127 and is not repeated' run broken --every 1d --retry 0 -- true
run 0 run broken --every 1d --retry 1 -- true
python3 - <<'PYTHON'
import sqlite3
file = sqlite3.connect("state/elections.db", isolation_level=None)
file.execute("CREATE TRIGGER unwritable BEFORE INSERT ON conclave_runs BEGIN SELECT RAISE(ABORT, 'no'); END")
PYTHON
"$CONCLAVE" run unwritable --every 1d -- true 2>told &
unwritable=$!
await_leader unwritable
tries=0
until "$CONCLAVE" status unwritable --json >out 2>err && python3 -c 'import json, time
assert time.time() - json.load(open("out"))["since_unix_s"] > 1' 2>/dev/null || [ $tries -ge 100 ]; do
    tries=$((tries + 1))
    sleep 0.1
done
python3 -c 'import sqlite3
sqlite3.connect("state/elections.db", isolation_level=None).execute("DROP TRIGGER unwritable")'
status=0
wait $unwritable || status=$?
check 'a run that cannot be written at first is written later' [ $status = 0 ]
check "that is said once, not $(wc -l <told) times" [ "$(wc -l <told)" = 1 ]
run 0 run --check job --every 1d -- no-such-command
fails 2 'unknown store' run --check job --via nowhere: -- true
fails 2 "not 'never'" run --check job --lease never -- true
fails 2 'too short for sqlite: at least 100ms' run --check job --lease 1ms -- true
fails 2 'a lease of 25 h is too long: at most 24 h' run --check job --lease 25h -- true
fails 2 'too short for etcd: at least 1s' run --check job --via etcd://127.0.0.1:1 --lease 500ms -- true
fails 2 'a password in a postgres: address is refused' run --check job --via postgres://u:p@127.0.0.1:1/d -- true
if has_store postgres; then
    for port in 0 65536 5x -1 1,x 1,2,123456; do
        fails 2 'port of a postgres: address must be a number from 1 to 65535' run --check job --via "postgres://u@h:1/d?port=$port" -- true
    done
    fails 2 "unknown sslmode 'requre'; did you mean 'require'?" \
        run --check job --via 'postgres://u@h/d?sslmode=requre' -- true
    fails 2 "unknown target_session_attrs 'readwrite'; did you mean 'read-write'?" \
        run --check job --via 'postgres://u@h/d?target_session_attrs=readwrite' -- true
    for via in postgres://h:65535/d 'postgres://a:1,b:2,c/d?sslmode=verify-full&target_session_attrs=any' \
        'postgres://a,b:2/d?sslmode='; do
        run 0 run --check job --via "$via" -- true
    done
fi
fails 2 "did you mean 'cacert'?" run --check job --via 'etcd://127.0.0.1:1?cacrt=/x' -- true
fails 2 'host' run --check job --via zookeeper://h:x/p -- true
for via in postgres://u@127.0.0.1:1/d etcd://127.0.0.1:1 zookeeper://127.0.0.1:1/p; do # the store is not asked
    run 0 run --check job --via "$via" -- true
done

# ---- commands that cannot be run ------------------------------------------------------------------

fails 127 "cannot run 'no-such-command': No such file or directory" run x -- no-such-command
fails 127 "cannot run './no/such': No such file or directory" run x -- ./no/such
fails 126 "cannot run './file': Permission denied" run x -- ./file
fails 126 "cannot run '/': Permission denied" run x -- /
printf '#!/no/such/interpreter\n' >script
chmod 755 script
fails 127 "cannot run './script': " run x -- ./script
run 1 status x
check 'a command that could not be run keeps nobody out' grep -q '^x: nobody leads' out

# ---- exit statuses of the command, and of those that do not get their turn ---------------------------

run 0 run x -- true
run 7 run x -- sh -c 'exit 7'
run 255 run x -- sh -c 'exit 255'
run 137 run x -- sh -c 'kill -9 $$'
run 143 run x -- sh -c 'kill $$'
"$CONCLAVE" run held --node first -- sh -c 'trap "sleep 0.5; exit 143" TERM; sleep 60 & wait' 2>/dev/null &
holder=$!
await_leader held
check 'somebody leads' grep -q '^held: first leads, token [0-9]*, since 20.* left of a lease of 5s$' out
quietly() { # quietly STATUS ARGUMENT...: an answer, not a failure: nothing on stderr
    run "$@"
    [ ! -s out ] && [ ! -s err ] || fail "conclave $*: not silent"
}
run 0 resign held --to first
check 'a node that leads already is left alone' [ "$(cat out)" = 'held: first leads already' ]
check 'and is not asked to resign' sh -c '! "$CONCLAVE" status held | grep -q asked'
fails 2 '-n and -w cannot be combined' run held -n -w 1s -- echo no
quietly 1 run held -n -- echo no
quietly 1 run held --nonblock -- echo no
quietly 1 run held -w 0.2 -- echo no
quietly 1 run held --wait 200ms -- echo no
quietly 1 run held --timeout 0 -- echo no
quietly 42 run held -n -E 42 -- echo no
quietly 0 run held -n -E 0 -- echo no
quietly 42 run held -w 100ms --conflict-exit-code 42 -- echo no
run 1 run held -n --verbose -- echo no
one_line 'run -n --verbose' 'held: first leads'
run 0 history held --at @"$(date +%s).999"
check 'the history shows the present leader' grep -q '(still leads) .* first$' out
fails 1 'held: first still leads' resign held --wait 0s
run 1 run held -w 300ms --verbose -- echo no
check 'run --verbose says what it waits for' grep -q 'held: waiting: first leads, token ' err
kill "$holder"
wait "$holder"
check 'SIGTERM is passed on' [ $? -eq 143 ]
holder=

# Handed over: with --once the program ends.
"$CONCLAVE" run once --once -- sleep 60 >once.out 2>once.err &
holder=$!
await_leader once
run 0 resign once --wait 200ms
wait "$holder"
check 'lost with --once: 124' [ $? -eq 124 ]
check 'and prints no error' [ ! -s once.err ]
holder=

# An heir whose command ends at once may have led between two questions of resign.
for round in 1 2 3 4 5; do
    "$CONCLAVE" run short --once --node first -- sleep 60 2>/dev/null &
    holder=$!
    await_leader short
    "$CONCLAVE" run short --node heir -w 60s -- true &
    heir=$!
    "$CONCLAVE" resign short --to heir --wait 60s >out 2>err
    status=$?
    check "an heir that led for a moment has taken over: $(cat out err)" \
        [ "$status $(sed 's/, token.*//' out err)" = '0 short: heir leads now' -o \
        "$status $(cat out err)" = '1 conclave: short: heir took over, but does not lead any more' ]
    wait "$holder" "$heir"
    holder=
done

# A hook has variables of its own, and still finds the elections.
run 0 run hooked --on-elected 'echo "$CONCLAVE_ROLE $CONCLAVE_REASON $CONCLAVE_STATE" >hook' -- sleep 0.1
check 'the environment of a hook' [ "$(cat hook)" = "MASTER elected $CONCLAVE_STATE" ]

# ---- questions about nothing ----------------------------------------------------------------------

export CONCLAVE_STATE="$work/fresh"
run 0 status
check 'no elections' [ ! -s out ]
run 1 status x
check 'nobody leads' [ "$(cat out)" = 'x: nobody leads, and no leadership is known' ]
fails 1 'x: nobody leads' resign x
fails 1 'x: no leadership is recorded$' history x
fails 1 'x: no leadership is recorded then' history x --at 10min
fails 2 'resign takes the name of one election' resign
fails 2 'resign takes the name of one election' resign x y
fails 2 "--wait takes a time like 500ms, 5s, 2min or 1h, not 'x'" resign x --wait x
fails 2 "--lease takes a time like 500ms, 5s, 2min or 1h, not '1m'; minutes are 'min'" run x --lease 1m -- true
fails 2 "is not a valid name of a node" resign x --to ''
fails 2 "is not a valid name of a node" resign x --to "$(repeated n 128)"
fails 2 'history takes the name of one election' history
fails 2 "status takes at most one election; 'y' is one too many" status x y
fails 2 'watch takes the name of one election' watch
fails 2 'elect takes the name of one election' elect x y
fails 2 '--changes takes a whole number from 1' watch x --changes 0
fails 2 "stores takes no argument, not 'x'" stores x
fails 2 'use: conclave store init ADDRESS' store
fails 2 'use: conclave store init ADDRESS' store make sqlite:x
fails 2 'use: conclave store init ADDRESS' store init sqlite:x --via sqlite:y
fails 2 'did you mean: conclave store init ADDRESS' stores init sqlite:x
fails 2 "options are written in full: '--at-most-once'" run x --every 1d --at 02:00 -- true
fails 2 "unknown store 'nosuch'" store init --via nosuch:x
fails 2 'explain takes one address' explain sqlite:x sqlite:y
fails 2 "--lease must be at least 100ms with sqlite, not '1ms'" explain --lease 1ms
fails 2 "--lease must be at most 24h, not '90000s'" explain --lease 25h
fails 2 'CONCLAVE_LEASE_FILE is not set' check-lease

if [ -c /dev/full ]; then
    "$CONCLAVE" watch x --changes 1 >/dev/full 2>err
    one_line 'watch: output that cannot be written' 'cannot write the output: No space left on device'
fi

# ---- instants -------------------------------------------------------------------------------------

run 0 run x -- sleep 0.3
for instant in x '' @ @x '2026-13-01' 2026-02-30 '2026-04-31 14:00' '2026-02-29T14:00Z' '2026-01-31 14' '2026-01-31 14:00 x' '2026-01-31T' \
    '2026-01-31 14:00:05.' '14:00' yesterday; do
    fails 2 "--at takes a time such as '2026-01-31 14:00'" history x --at "$instant"
    fails 2 "--since takes a time such as '2026-01-31 14:00'" history x --since "$instant"
done
for instant in '2001-01-31' '2001-01-31 14:00' '2001-01-31T14:00:05' '2001-01-31T14:00:05Z' \
    '2001-01-31 14:00:05.25' 2024-02-29 @1000000000 @1000000000.5 10min 36h 3d 1w; do
    fails 1 'no leadership is recorded then' history x --at "$instant"
    run 0 history x --since "$instant"
    check "a header, and one leadership since $instant" [ "$(wc -l <out)" -eq 2 ]
done
run 0 history x --json
middle=$(python3 -c 'import json
x, = json.load(open("out"))
print((x["from_unix_s"] + x["to_unix_s"]) / 2)')
run 0 history x --at "@$middle"
check 'the list has a header' grep -q '^from  *to  *lasted  *token  *why ended  *leader$' out
check 'one led then' [ "$(wc -l <out)" -eq 2 ]
for zone in UTC Asia/Kolkata; do
    TZ=$zone date -d "@$middle" '+%Y-%m-%d %H:%M:%S.%N' >instant
    export TZ=$zone
    run 0 history x --at "$(cat instant)"
    unset TZ
    check "in the local time of $zone too" [ "$(wc -l <out)" -eq 2 ]
done
run 0 history x --at "$(TZ=UTC date -d "@$middle" '+%Y-%m-%dT%H:%M:%S.%NZ')"
check 'and in universal time' [ "$(wc -l <out)" -eq 2 ]

# ---- where, if --via does not say it -----------------------------------------------------------------

run 0 run elsewhere --via "sqlite:$work/else.db" -- true
export CONCLAVE_VIA="sqlite:$work/else.db"
run 1 status elsewhere
check 'CONCLAVE_VIA stands for --via' grep -q 'last token 1' out
run 0 run elsewhere -- true
run 0 history elsewhere
check 'and for run and history' [ "$(wc -l <out)" -eq 3 ]
fails 1 'x: no leadership is recorded' history x
export CONCLAVE_VIA=
run 0 history x

# ---- what explain promises -------------------------------------------------------------------------

# etcd rounds a lease up to whole seconds, but the leader does not use more than was requested.
run 0 explain etcd://127.0.0.1:1 --lease 4.1s --json
check 'what the server rounds up is not promised' \
    python3 -c 'import json; e = json.load(open("out")); assert (e["lease_s"], e["grant_s"]) == (5, 4.1), e'
for grace in 1.64s 1.7s; do
    status=0
    "$CONCLAVE" explain etcd://127.0.0.1:1 --lease 4.1s --grace $grace >out 2>err || status=$?
    run $status run x --check --via etcd://127.0.0.1:1 --lease 4.1s --grace $grace -- true
done
check 'explain and run refuse the same grace' [ "$status" -eq 2 ]
run 0 run --help
check 'the default of --grace is explained' grep -q '1s on ZooKeeper with a lease of 5s' out
run 0 explain zookeeper://127.0.0.1:1/x --json
check 'and is true' python3 -c 'import json; assert json.load(open("out"))["run_grace_s"] == 1'
# What servers with default settings make of a lease: etcd raises it to 2 s; ZooKeeper to 4 s, or cuts it to 40 s.
run 0 explain etcd://127.0.0.1:1 --lease 1s --json
check 'a lease that etcd raises' python3 -c 'import json
e = json.load(open("out")); assert (e["lease_s"], e["grant_s"], e["crash_takeover_max_s"]) == (2, 1, 4.3), e'
run 0 explain zookeeper://127.0.0.1:1/x --lease 1s
check 'a lease that ZooKeeper raises' grep -q 'lease that the store grants  *4s; the least that servers grant' out
run 0 explain zookeeper://127.0.0.1:1/x --lease 120s --grace 15s
check 'a lease that ZooKeeper cuts' grep -q 'lease that the store grants  *120s; more than servers grant' out
run 0 explain zookeeper://127.0.0.1:1/x --lease 120s --grace 15s --json
check 'and what is left of it' python3 -c 'import json
e = json.load(open("out")); assert (e["lease_s"], e["grant_s"]) == (120, 20), e
assert e["outage_tolerated_s"] == e["run_outage_tolerated_s"] == e["run_pause_tolerated_s"] == 0, e'
run 0 explain --lease 2
check 'a word and its value are apart' sh -c '! grep "^  " out | grep -qv "^  .*[^ ]  "'
run 0 explain --lease 2 --json
python3 -c 'import json
e = json.load(open("out"))
print(e["run_outage_tolerated_s"], e["run_pause_tolerated_s"], e["run_grace_s"])' >promised
read -r outage pause grace <promised
"$CONCLAVE" run kept --lease 2 --verbose -- sleep 60 >kept.out 2>kept.err &
holder=$!
told_lock() { # told_lock SECONDS: locks the file against all others for so long
    python3 -c 'import sqlite3, sys, time
db = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=10)
db.execute("BEGIN IMMEDIATE")
time.sleep(float(sys.argv[2]))' "$CONCLAVE_STATE/elections.db" "$1"
}
tries=0
until grep -q 'runs as process' kept.err || [ $tries -ge 200 ]; do
    tries=$((tries + 1))
    sleep 0.05
done
renewed() { # waits until the lease was renewed after the fault
    tries=0
    until "$CONCLAVE" status kept --json | grep -q '"remaining_s": 1.[5-9]' || [ $tries -ge 200 ]; do
        tries=$((tries + 1))
    done
}
for turn in 1 2 3; do
    renewed
    told_lock "$(python3 -c "print($outage * 0.7)")"
    renewed
    kill -STOP "$holder"
    sleep "$(python3 -c "print($pause * 0.7)")"
    kill -CONT "$holder"
done
check 'an outage that explain promises to survive is survived' sh -c '! grep -q stopping kept.err'
tries=0 # a renewal after the last pause: otherwise that may be the reason
until "$CONCLAVE" status kept --json | grep -q '"remaining_s": [01].[0-4]' || [ $tries -ge 200 ]; do
    tries=$((tries + 1))
done
renewed
told_lock 2.5
tries=0
until grep -q 'leadership lost (store-unreachable)' kept.err || [ $tries -ge 200 ]; do
    tries=$((tries + 1))
    sleep 0.05
done
check 'an outage is reported as one' grep -q 'leadership lost (store-unreachable)' kept.err
kill "$holder"
wait "$holder" 2>/dev/null
holder=
run 0 history kept
# A busy machine may have lost an earlier leadership for another reason: the outage is one of the rows.
check "and the trail does not call it a resignation: $(cat out)" grep -q ' store-unreachable ' out

# ---- why it ended ---------------------------------------------------------------------------------

# leads NAME NODE: waits until that node leads.
leads() {
    tries=0
    until "$CONCLAVE" status "$1" 2>err | grep -q "$2 leads" || [ $tries -ge 200 ]; do
        tries=$((tries + 1))
        sleep 0.05
    done
    check "$2 leads $1" [ $tries -lt 200 ]
}
# told FILE TEXT: waits until another program has printed this line.
told() {
    tries=0
    until grep -q "$2" "$1" || [ $tries -ge 200 ]; do
        tries=$((tries + 1))
        sleep 0.05
    done
    check "$1 says '$2'" [ $tries -lt 200 ]
}
"$CONCLAVE" watch why >watched 2>&1 &
watcher=$!
run 0 run why --node a -- sleep 0.3
told watched 'nobody leads (finished)'
"$CONCLAVE" run why --node b --lease 2s -- sleep 60 >/dev/null 2>&1 &
holder=$!
leads why b
kill -9 "$holder"
wait "$holder" 2>/dev/null
told watched 'nobody leads (died)'
"$CONCLAVE" run why --node c --once -- sleep 60 >/dev/null 2>&1 &
holder=$!
leads why c
run 0 resign why --wait 0.2s
wait "$holder"
holder=
told watched 'nobody leads (resigned)'
kill "$watcher"
wait "$watcher"
check 'watch does not guess' sh -c '! grep -q expired watched'
run 0 history why
run 1 status why
check 'status says why nobody leads' grep -q '^why: nobody leads (last token [0-9]*, resigned)$' out
run 1 status why --json
check 'and in JSON' grep -q '"ended": "resigned"' out
run 0 history why
check 'the history says why each leadership ended' [ "$(sed 's/.* s  *[0-9]*  //; s/ .*//; 1d' out | tr '\n' ' ')" = 'finished died resigned ' ]
check 'a dead leader was last known alive then' grep -q ' died  *b  (last renewed [0-9.]* s before its end)' out
check 'after a death a bound is known' grep -q ' resigned  *c  (nobody for at most [0-9.]* s before)$' out
run 0 history why --json
check 'the history as JSON' python3 -c 'import json
a, b, c = json.load(open("out"))
assert a["last_renewed_unix_s"] is None and a["why"] == "finished"
assert b["from_unix_s"] <= b["last_renewed_unix_s"] <= b["to_unix_s"]
assert c["nobody_before_is_at_most"] and c["nobody_before_s"] > 0'
"$CONCLAVE" run told-to-end --node d -- sh -c 'trap "exit 0" TERM; while :; do sleep 0.05; done' >/dev/null 2>&1 &
holder=$!
leads told-to-end d
kill "$holder"
wait "$holder"
holder=
run 0 history told-to-end
check 'a command that was stopped is not reported as finished' \
    [ "$(sed 's/.* s  *[0-9]*  //; s/ .*//' out | tail -n 1)" = resigned ]

# Hooks get the same reasons.
hook='echo "$CONCLAVE_ROLE $CONCLAVE_REASON" >>hooked'
run 0 run hooked --on-elected "$hook" --on-lost "$hook" -- true
"$CONCLAVE" run hooked --node e --on-elected "$hook" --on-lost "$hook" -- \
    sh -c 'trap "exit 0" TERM; while :; do sleep 0.05; done' >/dev/null 2>&1 &
holder=$!
leads hooked e
told hooked 'MASTER elected'
kill "$holder"
wait "$holder"
"$CONCLAVE" run hooked --node f --once --on-elected "$hook" --on-lost "$hook" \
    --cleanup 'echo $CONCLAVE_REASON >cleaned' -- sleep 60 >/dev/null 2>&1 &
holder=$!
leads hooked f
run 0 resign hooked --wait 0.2s
wait "$holder"
holder=
told hooked 'BACKUP resigned'
check 'hooks get the reasons' [ "$(tr '\n' ' ' <hooked)" = \
    'MASTER elected STOP finished MASTER elected STOP resigned MASTER elected BACKUP resigned ' ]
check 'and so does the cleanup' [ "$(cat cleaned)" = resigned ]

# Another SIGTERM, after the command has ended, does not cut the end short.
"$CONCLAVE" run twice --on-lost 'touch hook-began; until [ -e end-hook ]; do sleep 0.02; done' -- true >/dev/null 2>&1 &
holder=$!
until [ -e hook-began ]; do sleep 0.02; done
kill "$holder"
touch end-hook
wait "$holder"
ended=$?
holder=
check 'a signal after the end of the command changes nothing' [ "$ended" -eq 0 ]

# A job that got SIGHUP and went on is recorded, even if the store cannot be used at first.
"$CONCLAVE" run hung-up --via "sqlite:$PWD/hung-up.db" --lease 30s --every 1d -- \
    sh -c 'trap "touch job-hung-up" HUP; touch job-began; until [ -e end-job ]; do sleep 0.02; done' 2>told &
holder=$!
until [ -e job-began ]; do sleep 0.02; done
kill -HUP "$holder"
until [ -e job-hung-up ]; do sleep 0.02; done
python3 -c 'import sqlite3, time
db = sqlite3.connect("hung-up.db", isolation_level=None)
db.execute("BEGIN EXCLUSIVE")
open("end-job", "w").close()
while "hung-up: " not in open("told").read():
    time.sleep(0.02)
db.execute("ROLLBACK")'
wait "$holder"
ended=$?
holder=
check 'the job is recorded later' [ "$ended" -eq 0 ]
run 0 history hung-up --via "sqlite:$PWD/hung-up.db"
check 'with its status' grep -q ' 0  *[0-9]*  [^ ]*$' out

# ---- names with a slip of the finger, and what is not there -----------------------------------------

run 0 run nightly -- true
run 1 status nigthly
check 'a similar name' grep -q "^conclave: nigthly: the store has no such election; did you mean 'nightly'?$" err
fails 1 "nigthly: no leadership is recorded; did you mean 'nightly'?" history nigthly
fails 1 "nigthly: nobody leads; did you mean 'nightly'?" resign nigthly
fails 1 "nigthly: nobody leads; did you mean 'nightly'?" resign nigthly --to beta
run 0 forget nigthly
one_line 'a similar name' "nigthly: the store has no such election; did you mean 'nightly'?"
run 0 forget something-else
one_line 'nothing is similar' 'something-else: the store has no such election$'
for question in status 'status x' 'history x' 'resign x' 'forget x'; do
    "$CONCLAVE" $question --via "sqlite:$PWD/fresh.db" >out 2>err
    check "conclave $question: creates no file" [ ! -e fresh.db ]
done
run 1 status x --via "sqlite:$PWD/fresh.db"
check 'the status of one election in a file that is not there' [ "$(cat out err | sed "s|'.*/|'|")" = \
    "x: nobody leads, and no leadership is known
conclave: x: the file 'fresh.db' does not exist yet" ]
"$CONCLAVE" watch x --via "sqlite:$PWD/fresh.db" --changes 2 >watched 2>&1 &
watcher=$!
told watched "does not exist yet; waiting for it"
check 'watch makes no file' [ ! -e fresh.db ]
check 'watch has no reason for what never was' grep -q 'x: nobody leads$' watched
run 0 run x --via "sqlite:$PWD/fresh.db" --node first -- sleep 0.5
wait "$watcher"
check 'watch begins when the file is there' grep -q 'x: first leads, token 1 (elected)$' watched
rm -rf fresh.db*
run 0 status --via "sqlite:$PWD/fresh.db"
one_line 'a file that is not there' "no elections: the file '.*/fresh.db' does not exist yet"
run 0 store init "sqlite:$PWD/fresh.db"
run 0 status --via "sqlite:$PWD/fresh.db"
one_line 'an empty store' 'no elections in this store'

# ---- when the store does not answer ------------------------------------------------------------------

if has_store etcd; then
    run 2 history x --via etcd://127.0.0.1:1
    check 'that nobody led is not known' sh -c '! grep -q "no leadership is recorded" err && grep -q "cannot connect to 127.0.0.1:1" err'
    run 2 history x --json --via etcd://127.0.0.1:1
    check 'what a program reads is complete' [ "$(cat out)" = '[]' ]
    "$CONCLAVE" watch x --via etcd://127.0.0.1:1 --changes 1 >out 2>err
    check 'watch says what it does not know' grep -q 'x: it is not known who leads: etcd: cannot connect to 127.0.0.1:1: ' out
    run 1 doctor --via etcd://nosuch.invalid
    check 'a host that is not known' grep -q 'to do: check the host in the address' out
fi
fails 2 "--every takes a whole number with its unit, such as 90s, .* not '1'" run x --every 1 -- true

# The example tells at once that it was started in the wrong way.
status=0
PATH="$(dirname "$CONCLAVE"):$PATH" timeout 10 sh "$examples/virtual-ip/virtual-ip" up 192.0.2.10/24 lo >out 2>err || status=$?
check 'virtual-ip without conclave run' sh -c "[ $status -ne 0 ] && grep -q 'start this by conclave run' err"

# ---- a doctor where nothing works -------------------------------------------------------------------

echo 'this is not a file of SQLite' >text.db
run 1 doctor --via "sqlite:$PWD/text.db"
check 'a file of another kind' grep -q 'to do: use another file' out
run 0 doctor --via "sqlite:$PWD/doctored.db"
check 'the doctor makes no file' sh -c '[ ! -e doctored.db ] && [ ! -e doctored.db.alive ]'
check 'it says that there is none' grep -q '^ok *store .*the file does not exist yet; the first contender creates it$' out
run 0 store init "sqlite:$PWD/doctored.db"
run 1 doctor --via "sqlite:$PWD/doctored.db" --lease 1ms
check 'a lease that is too short' grep -q '^WRONG *lease *1ms is too short for sqlite: at least 100ms$' out
run 1 doctor --via "sqlite:$PWD/doctored.db" --lease 25h
check 'a lease that is too long' grep -q '^WRONG *lease *90000s is too long: at most 24h$' out
mkfifo end-of-lock
python3 -c 'import sqlite3, sys
lock = sqlite3.connect("doctored.db", isolation_level=None)
lock.execute("BEGIN EXCLUSIVE")
print("locked", flush=True)
sys.stdin.readline()' <end-of-lock >locker &
locker=$!
exec 8>end-of-lock
until [ -s locker ]; do sleep 0.02; done
run 1 doctor --via "sqlite:$PWD/doctored.db"
check 'the doctor names the process that has the lock' grep -q "^WRONG *lock .*locked by process $locker" out
check 'a lock is not reported as a problem of permissions' sh -c 'grep -q "to do: let that process finish" out && ! grep -q "owner, group" out'
exec 8>&-
wait "$locker"
ln doctored.db doctored-too.db
run 1 doctor --via "sqlite:$PWD/doctored.db"
check 'an error that says itself what to do gets no other advice' sh -c 'grep -q "several names" out && ! grep -q "owner, group" out'
run 1 doctor --via "sqlite:$PWD/not/there.db"
check 'a folder that is not there' grep -q 'to do: check the path, and the owner' out
: >plain
status=0
CONCLAVE_STATE="$PWD/plain/below" "$CONCLAVE" doctor >out 2>err || status=$?
check 'the doctor tells what is wrong with the folder' \
    sh -c "[ $status -eq 1 ] && grep -q '^WRONG  *folder' out && grep -q 'to do: set CONCLAVE_STATE' out"
status=0
CONCLAVE_STATE="$PWD/plain/below" "$CONCLAVE" doctor --json >out 2>err || status=$?
check 'and as JSON' sh -c "[ $status -eq 1 ] && python3 -m json.tool out >/dev/null"

# A folder for the users of a group.
mkdir group
chmod 2770 group
mask=$(umask)
umask 022
run 0 doctor --via "sqlite:$PWD/group/e.db"
check 'the doctor warns of a umask' sh -c "grep -q '^warning *permissions .*with umask 022 only this user' out && grep -q \"'umask 007'\" out"
umask 007
run 0 doctor --via "sqlite:$PWD/group/e.db"
check 'a umask that is right' sh -c '! grep -q permissions out'
run 0 store init "sqlite:$PWD/group/e.db"
run 0 doctor --via "sqlite:$PWD/group/e.db"
check 'files that are right' sh -c '! grep -q "^warning *permissions" out'
check 'the doctor leaves nothing behind' [ -z "$(ls group/e.db.alive)" ]
chmod g-w group/e.db group/e.db.alive
run 0 doctor --via "sqlite:$PWD/group/e.db"
check 'the doctor warns of files that the group may not write' \
    grep -q "to do: as their owner: chmod -R g+w '$PWD/group/e.db' '$PWD/group/e.db.alive'$" out
chmod g-s group
run 0 doctor --via "sqlite:$PWD/group/e.db"
check 'a folder that is not for a group' sh -c '! grep -q "^warning *permissions" out'
umask "$mask"

for reason in finished resigned expired died; do # the reasons that a cleanup gets
    run 0 explain $reason
done
run 0 explain finished
check 'the end of a command may be a failure' grep -q '^What to do: see the exit status' out
run 0 explain died
check 'a reason is explained' grep -q '^What to do: ' out
fails 2 "'bogus' is not an address; .*It is not a reason either, such as 'expired'" explain bogus
fails 2 "unknown reason 'expird'; did you mean 'expired'?" explain expird
for option in --lease --grace --cleanup-time; do
    fails 2 "'expired' is a reason, which $option does not concern" explain expired $option 5s
done

echo "$checks checks, $failures failed"
[ "$failures" -eq 0 ]
