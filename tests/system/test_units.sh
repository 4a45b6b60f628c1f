#!/bin/sh
# The units for systemd: systemd-analyze finds nothing wrong with them, and the program accepts the
# command lines in them.
#
# Needs CONCLAVE and SOURCE_ROOT. Skipped where there is no systemd-analyze.
set -eu

command -v systemd-analyze >/dev/null || { echo "no systemd-analyze here"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
    echo "FAILED: $*" >&2
    exit 1
}

mkdir "$work/bin"
ln -s "$CONCLAVE" "$work/bin/conclave"
for unit in conclave-run@.service conclave-job@.service; do
    sed "s|@bindir@|$work/bin|" "$SOURCE_ROOT/packaging/$unit.in" >"$work/$unit"
done
cp "$SOURCE_ROOT/packaging/conclave-job@.timer" "$work/"
for unit in conclave-run@server.service conclave-job@nightly.service conclave-job@nightly.timer; do
    SYSTEMD_UNIT_PATH="$work:" systemd-analyze verify --man=no "$work/$unit" >"$work/out" 2>&1 ||
        { cat "$work/out" >&2; fail "systemd-analyze verify $unit"; }
    if grep "$work" "$work/out" >&2; then # it exits with 0 after some warnings
        fail "systemd-analyze has a warning about $unit"
    fi
done

# line UNIT KEY OPTIONS COMMAND: runs the line of the unit as systemd would, with %i as `name`.
line() {
    OPTIONS=$3 COMMAND=$4 sh -c "set -- $(sed -n "s|^$2=||p" "$work/$1" | sed 's|%i|name|g');"' "$@"'
}
line conclave-run@.service ExecStartPre '--lease 10s' true || fail "the check refuses a correct command line"
status=0
line conclave-run@.service ExecStartPre '--lease never' true 2>"$work/err" || status=$?
[ "$status" -eq 2 ] || fail "the check accepts a wrong command line: status $status"
export CONCLAVE_STATE="$work/state"
status=0
line conclave-run@.service ExecStart '--lease 10s' 'ls /no/such/file' 2>"$work/err" || status=$?
[ "$status" -eq 2 ] || fail "the unit hides the command's own exit status 2: $status"
! grep -q RestartPreventExitStatus "$work/conclave-run@.service" || fail "2 is not the server's own"
line conclave-job@.service ExecStart '--every 1d' "touch $work/done" || fail "the job's line"
[ -e "$work/done" ] || fail "the job did not run"
line conclave-job@.service ExecStart '--every 1d' false || fail "the job ran twice in a period"
