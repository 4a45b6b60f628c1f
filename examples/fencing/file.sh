#!/bin/sh
# file.sh FILE - replaces FILE by its standard input, unless a later leader has written it already.
#
# The token is the first line of FILE, so that content and token change in one step (rename). Readers
# skip that line: tail -n +2 FILE. The new content is read before the lock is taken: a slow source does
# not keep others out, and a leader that was replaced meanwhile is refused.
#
#   conclave run report -- sh -c './report | ./file.sh /srv/report.txt'
set -eu
file=${1:?usage: file.sh FILE}
: "${CONCLAVE_TOKEN:?is not set: start this by conclave run}"
# 19 digits may be more than the shell's test can compare.
case $CONCLAVE_TOKEN in *[!0-9]* | ???????????????????*) echo "$0: CONCLAVE_TOKEN is not a number" >&2 && exit 2 ;; esac

new=$(mktemp "$file.XXXXXX")
trap 'rm -f "$new"' EXIT
echo "$CONCLAVE_TOKEN" >"$new"
cat >>"$new"
chmod "$(printf %o $((0666 & ~$(umask))))" "$new" # mktemp lets nobody else read it
sync "$new"

exec 9>>"$file.lock"
flock 9
seen=0
[ ! -s "$file" ] || read -r seen <"$file" || seen=
case $seen in '' | *[!0-9]* | ???????????????????*) echo "$0: the first line of $file is not a token" >&2 && exit 2 ;; esac
[ ! -e "$file" ] || chmod --reference="$file" "$new"
if [ "$CONCLAVE_TOKEN" -lt "$seen" ]; then
    echo "$0: token $CONCLAVE_TOKEN is too old: token $seen was here already" >&2
    exit 75 # EX_TEMPFAIL
fi
mv "$new" "$file"
sync "$(dirname "$file")"
