#!/bin/sh
# script.sh STATE COMMAND... - runs COMMAND, unless a later leader was here already.
#
# For a resource that cannot check a token itself: a tape drive, a remote host,
# a device. STATE is a file beside it, on the machine (or the shared disk) where the changes are made; it
# keeps the largest token that was seen. The lock is held while COMMAND runs, so a later leader waits
# for it to end and an earlier one is refused from then on.
#
#   conclave run tape -- ./script.sh /var/lib/tape.fence ./write-tape
set -eu
state=${1:?usage: script.sh STATE COMMAND...}
shift
: "${1:?usage: script.sh STATE COMMAND...}"
: "${CONCLAVE_TOKEN:?is not set: start this by conclave run}"
# 19 digits may be more than the shell's test can compare.
case $CONCLAVE_TOKEN in *[!0-9]* | ???????????????????*) echo "$0: CONCLAVE_TOKEN is not a number" >&2 && exit 2 ;; esac

exec 9>>"$state.lock"
flock 9
seen=0
[ ! -e "$state" ] || read -r seen <"$state" || seen=
case $seen in '' | *[!0-9]* | ???????????????????*) echo "$0: no token in $state" >&2 && exit 2 ;; esac
if [ "$CONCLAVE_TOKEN" -lt "$seen" ]; then
    echo "$0: token $CONCLAVE_TOKEN is too old: token $seen was here already" >&2
    exit 75 # EX_TEMPFAIL
fi
if [ "$CONCLAVE_TOKEN" -gt "$seen" ]; then
    # On the disk before anything is changed: a machine that crashes must not forget it.
    echo "$CONCLAVE_TOKEN" >"$state.new"
    sync "$state.new"
    mv "$state.new" "$state"
    sync "$(dirname "$state")"
fi
"$@" 9>&- # processes that it leaves in the background do not keep the lock
