#!/bin/sh
# The experiments run, give the same results each time, and their verdicts are those of the papers.
#
# Needs CONCLAVE.
set -eu

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
    echo "FAILED: $*" >&2
    exit 1
}

# ---- classic --------------------------------------------------------------------------------------

"$CONCLAVE" lab classic >"$work/classic" || fail "lab classic: exit status $?"
! grep -q 'DISAGREES\|NOT SHOWN' "$work/classic" || fail "lab classic disagrees"
[ "$(grep -c ' agrees$' "$work/classic")" -eq 75 ] || fail "lab classic: not 75 figures"
[ "$(grep -c ' while node ' "$work/classic")" -eq 10 ] || fail "lab classic: not 10 pairs of leaders"

"$CONCLAVE" lab classic --json >"$work/classic" || fail "lab classic --json: exit status $?"
python3 - "$work/classic" <<'PYTHON' || fail "lab classic --json"
import json, sys
told = json.load(open(sys.argv[1], encoding="utf-8"))
assert told["experiment"] == "classic" and told["ok"] is True
assert len(told["elections"]) == 75 and len(told["two_leaders"]) == 10
PYTHON

# ---- local ----------------------------------------------------------------------------------------

"$CONCLAVE" lab local --tiny >"$work/local" || { tail -n 45 "$work/local"; fail "lab local: $?"; }
! grep -q DISAGREES "$work/local" || fail "lab local disagrees, but its exit status is 0"
[ "$(grep -c '^agrees' "$work/local")" -ge 12 ] || fail "lab local: too few claims are judged"
for number in 1 2 3 4; do
    grep -q "^$number\. " "$work/local" || fail "lab local: no table $number"
done
"$CONCLAVE" lab local --tiny >"$work/again"
cmp -s "$work/local" "$work/again" || fail "lab local gives another result the second time"

"$CONCLAVE" lab local --tiny --json >"$work/json" || fail "lab local --json: exit status $?"
python3 - "$work/json" <<'PYTHON' || fail "lab local --json"
import json, sys
text = open(sys.argv[1], encoding="utf-8").read()
assert text.count("\n") == 1, "not one line"
lab = json.loads(text)
assert lab["experiment"] == "local" and lab["ok"] is True, lab["claims"]
for table in "election", "new_leader", "collation", "reach", "stable":
    assert lab[table], table
assert all(row["unicasts"] == row["n"] - 1 and row["broadcasts"] == 1 for row in lab["stable"])
split = lab["new_leader"][0]
assert split["fault"] == "split" and 180 <= split["excluded"] <= 231, split
direct = {row["n"]: row["direct"] for row in lab["collation"]}
assert abs(direct[32] - direct[16] - 16 * 0.6) < 0.3, "0.6 ms for each process"
PYTHON

# ---- pole -----------------------------------------------------------------------------------------

"$CONCLAVE" lab pole --tiny >"$work/pole" || { tail -n 30 "$work/pole"; fail "lab pole: $?"; }
! grep -q 'DIFFERS\|DISAGREES' "$work/pole" || fail "lab pole differs, but its exit status is 0"
[ "$(grep -c ' agrees$' "$work/pole")" -eq 25 ] || fail "lab pole: not 25 figures"
[ "$(grep -c '^agrees' "$work/pole")" -ge 11 ] || fail "lab pole: too few claims are judged"
for number in 1 2 3 4 5 6 7; do
    grep -q "^$number\. " "$work/pole" || fail "lab pole: no table $number"
done
"$CONCLAVE" lab pole --tiny >"$work/again"
cmp -s "$work/pole" "$work/again" || fail "lab pole gives another result the second time"
"$CONCLAVE" lab pole --tiny --json >"$work/json" || fail "lab pole --json: exit status $?"
"$CONCLAVE" lab pole --random 20 --json >"$work/random" || fail "lab pole --random: $?"
python3 - "$work/json" "$work/random" <<'PYTHON' || fail "lab pole --json"
import json, sys
lab, random = (json.load(open(name, encoding="utf-8")) for name in sys.argv[1:])
assert lab["experiment"] == "pole" and lab["ok"] is True and random["ok"] is True
for table in "figures", "leaders", "mean", "worst", "snapshot", "sites", "resignation":
    assert lab[table], table
assert all(row["verdict"] == "agrees" for row in lab["figures"])
p4 = next(row for row in lab["leaders"] if row["deployment"] == 1 and row["leader"] == "p4")
assert p4["d1"] < p4["d2"] < p4["d3"], p4
best = {row["oracle"]: row["times"] for row in random["random"] if row["measure"] == "recovery time"}
assert min(best, key=best.get) == "recovery" and best["recovery"] < 1.01, best
PYTHON

# ---- auto -----------------------------------------------------------------------------------------

"$CONCLAVE" lab auto --tiny >"$work/auto" || { cat "$work/auto"; fail "lab auto: $?"; }
[ "$(grep -c '^agrees' "$work/auto")" -eq 3 ] || fail "lab auto: not three claims are judged of few networks"
"$CONCLAVE" lab auto --tiny >"$work/again"
cmp -s "$work/auto" "$work/again" || fail "lab auto gives another result the second time"
"$CONCLAVE" lab auto --random 2 --seed 3 --runs 2 --json >"$work/json" || fail "lab auto --json: exit status $?"
python3 - "$work/json" <<'PYTHON' || fail "lab auto --json"
import json, sys
lab = json.load(open(sys.argv[1], encoding="utf-8"))
assert lab["experiment"] == "auto" and lab["ok"] is True, lab["claims"]
every = {row["profile"]: row for row in lab["classes"] if row["network"] == "all"}
assert list(every) == ["loopback", "lan", "wan", "auto"], every
assert all(row["runs"] == 4 for row in every.values()), "two runs in each of two networks"
assert every["auto"]["changes"] == 0 and every["auto"]["leaderless"] == 0, every
assert 5 < every["auto"]["mean_ms"] < every["wan"]["mean_ms"], every
PYTHON

# ---- pole, with real processes --------------------------------------------------------------------

status=0
"$CONCLAVE" lab pole --live --tiny --json >"$work/live" 2>"$work/words" || status=$?
if [ "$status" -eq 2 ] && [ "$(id -u)" -ne 0 ]; then
    [ "$(wc -l <"$work/words")" -eq 1 ] || fail "lab pole --live: not one line without the rights of root"
    echo "lab pole --live is skipped: $(cat "$work/words")" >&2
else
    [ "$status" -eq 0 ] || { cat "$work/live" "$work/words"; fail "lab pole --live: exit status $status"; }
    python3 - "$work/live" <<'PYTHON' || fail "lab pole --live"
import json, sys
lab = json.load(open(sys.argv[1], encoding="utf-8"))
assert lab["ok"] is True, lab
worst, latency = (row["elected"] for row in lab["live"])
assert worst in ("p2", "p3") and latency == "p1", lab  # p2 and p3 stand side by side
PYTHON
fi

# ---- plots ----------------------------------------------------------------------------------------

mkdir "$work/one" "$work/two" "$work/none"
PATH=/nonexistent "$CONCLAVE" lab local --tiny --plots "$work/none" >"$work/out" 2>"$work/words" ||
    fail "lab local fails without gnuplot"
cmp -s "$work/local" "$work/out" || fail "the tables differ without gnuplot"
[ "$(wc -l <"$work/words")" -eq 1 ] && grep -q 'plots are skipped' "$work/words" ||
    fail "without gnuplot: not one line that says so"
[ -z "$(ls "$work/none")" ] || fail "plots without gnuplot"
if command -v gnuplot >/dev/null; then
    "$CONCLAVE" lab local --tiny --plots "$work/one" >/dev/null || fail "lab local --plots"
    "$CONCLAVE" lab local --tiny --plots "$work/two" >/dev/null
    [ "$(ls "$work/one" | wc -l)" -eq 5 ] || fail "not five plots"
    diff -r "$work/one" "$work/two" >/dev/null || fail "the same measurements give other plots"
    for plot in "$work"/one/*.svg; do
        grep -q '</svg>' "$plot" && grep -q '<path' "$plot" || fail "$plot is no plot"
    done
    mkdir "$work/three"
    "$CONCLAVE" lab pole --tiny --plots "$work/three" >/dev/null || fail "lab pole --plots"
    "$CONCLAVE" lab pole --random 5 --plots "$work/three" >/dev/null || fail "lab pole --random"
    [ "$(ls "$work/three" | wc -l)" -eq 7 ] || fail "not seven plots of pole"
    for plot in "$work"/three/*.svg; do
        grep -q '</svg>' "$plot" && grep -q '<path' "$plot" || fail "$plot is no plot"
    done
    mkdir "$work/four"
    "$CONCLAVE" lab auto --random 2 --plots "$work/four" >/dev/null || fail "lab auto --plots"
    [ "$(ls "$work/four" | wc -l)" -eq 2 ] || fail "not two plots of auto"
    for plot in "$work"/four/*.svg; do
        grep -q '</svg>' "$plot" && grep -q '<path' "$plot" || fail "$plot is no plot"
    done
    status=0
    "$CONCLAVE" lab local --tiny --plots "$work/missing" >/dev/null 2>&1 || status=$?
    [ "$status" -eq 2 ] || fail "a folder that is not there: exit status $status"
fi

# ---- live: real processes, nothing judged ---------------------------------------------------------

"$CONCLAVE" lab anon --live "file:$work/numbers" --runs 2 --json >"$work/live" || fail "lab anon --live"
python3 - "$work/live" <<'PYTHON' || fail "lab anon --live --json is not as documented"
import json, sys
lab = json.load(open(sys.argv[1], encoding="utf-8"))
for table in "fig3a_live", "fig3b_live", "eq1a_live", "eq1b_live":
    assert [row["R"] for row in lab[table]] == list(range(1, 11)), table
assert lab["sequencer"][0]["one_ms"] > 0
assert all(claim["agrees"] is None for claim in lab["claims"]) and lab["ok"]
PYTHON
status=0
"$CONCLAVE" lab anon --live "file:/no/such/folder/x" --runs 2 >"$work/out" 2>"$work/words" || status=$?
[ "$status" -eq 2 ] && grep -q 'cannot open' "$work/words" || fail "lab anon --live without a sequencer"

# ---- wrong use ------------------------------------------------------------------------------------

for wrong in "auto --random 0" "auto --seed 0" "auto more" "pole --seed 1" "pole --random 0" "pole --runs 101" "pole --what" "pole more" "local --runs 0" "local --runs x" "local --what" "local more" "nothing"; do
    status=0
    # Word splitting is meant.
    "$CONCLAVE" lab $wrong >/dev/null 2>"$work/words" || status=$?
    [ "$status" -eq 2 ] || fail "lab $wrong: exit status $status"
    [ -s "$work/words" ] || fail "lab $wrong: no words"
done
