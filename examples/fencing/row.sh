#!/bin/sh
# row.sh AMOUNT - adds AMOUNT to the row of row.sql, unless a later leader was there already.
#
# The UPDATE changes one row, or none. None means that this leader was replaced; nothing
# was changed, and it has to stop. SQL is the client and the database:
#
#   SQL='psql -qAtX -v ON_ERROR_STOP=1 postgres://ops@db/ops' conclave run job -- ./row.sh 100
#   SQL='sqlite3 -bail -cmd ".timeout 5000" ops.db' conclave run job -- ./row.sh 100
#
# psql finds its password in ~/.pgpass. PGPASSWORD is not in the environment of a command that is run
# by an election in PostgreSQL, unless conclave run has --keep-secrets.
#
# Several statements that belong together go into one transaction, the UPDATE of the fence first: it
# locks the row until the end, so a later leader waits for it, and an earlier one changes nothing.
set -eu
amount=${1:?usage: row.sh AMOUNT}
: "${CONCLAVE_TOKEN:?is not set: start this by conclave run}"
# 19 digits may be more than a BIGINT can hold: SQLite would store another number, without an error.
for number in "$amount" "$CONCLAVE_TOKEN"; do
    case $number in *[!0-9]* | ???????????????????*) echo "$0: '$number' is not a number, or too long" >&2 && exit 2 ;; esac
done

changed=$(eval "$SQL" <<SQL
UPDATE job SET fence = $CONCLAVE_TOKEN, balance = balance + $amount
    WHERE id = 1 AND fence <= $CONCLAVE_TOKEN RETURNING fence;
SQL
)
if [ "$changed" != "$CONCLAVE_TOKEN" ]; then
    echo "$0: token $CONCLAVE_TOKEN is too old; nothing was changed" >&2
    exit 75 # EX_TEMPFAIL
fi
