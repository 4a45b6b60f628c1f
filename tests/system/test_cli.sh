#!/bin/sh
# The command line from outside: help, exit statuses, bad input, JSON, traces, seeds and shrinking.
#
# Needs CONCLAVE and SOURCE_ROOT. Every check runs; failed ones are named at the end.
set -u

limit_s=300
. "$(dirname "$0")/../support/checks.sh"
work=$(mktemp -d)
trap 'umount "$work/small" 2>/dev/null; rm -rf "$work"' EXIT
cd "$work" || exit 1

# refuses PATTERN ARGUMENT...: status 2, nothing on stdout, one line on stderr that matches.
refuses() {
    pattern=$1
    shift
    run 2 "$@"
    one_line "conclave $*" "$pattern"
}

# says PATTERN: the last run printed it.
says() {
    checks=$((checks + 1))
    grep -q -e "$1" out || fail "no '$1' in the output of the last run"
}

# is_json FILE [EXPRESSION]: every line is JSON, and the expression holds for each of them (r).
is_json() {
    python3 - "$@" <<'PYTHON'
import json, sys
expression = sys.argv[2] if len(sys.argv) > 2 else "True"
lines = open(sys.argv[1], encoding="utf-8").read().splitlines()
sys.exit(0 if lines and all(eval(f"({expression})", {"r": json.loads(line)}) for line in lines) else 1)
PYTHON
}

cat >good.scn <<'SCENARIO'
protocol bully
nodes 5
at 1s crash leader
run 3s
expect leader 4 by 2s
SCENARIO
sed 's/leader 4/leader 3/' good.scn >wrong.scn
# Expects more than is promised: fails for most seeds.
cat >hunt.scn <<'SCENARIO'
protocol bully
nodes 5
link * delay 1ms jitter 10%
random faults rate 2/s kinds crash,pause,loss until 8s lasting 50ms..500ms
run 10s
expect property token-monotonic
SCENARIO

# ---- help and version -----------------------------------------------------------------------------

for arguments in --help -h help 'protocols --help' 'protocols -h' 'help protocols' 'oracles --help' 'sim --help' \
    'help sim' 'lab --help' 'help lab' 'lab classic --help'; do
    run 0 $arguments
    says 'usage: conclave'
    check "conclave $arguments: stderr is empty" [ ! -s err ]
done
run 0 --help
for verb in protocols oracles sim lab; do
    says "^  $verb "
done
for word in help --help -h; do
    run 0 help $word
    says '^  sim '
done
run 0 --version
says '^conclave [0-9]\+\.[0-9]\+\.[0-9]\+$'
run 0 version
says '^conclave [0-9]\+\.[0-9]\+\.[0-9]\+$'
run 2
check 'without arguments the help goes to stderr' grep -q 'usage: conclave' err
refuses "unknown command 'smi'; did you mean 'sim'?" smi
refuses "unknown command 'smi'" help smi
refuses "unknown command 'lock'; did you mean 'run'?" lock
refuses "unknown option '--wiat'; did you mean '--wait'?" resign x --wiat 5
refuses "unknown command 'hlep'; did you mean 'help'?" hlep
refuses "unknown command 'govern'; known: run, elect, " govern

# ---- protocols ------------------------------------------------------------------------------------

run 0 protocols
for protocol in bully bully-improved bully-modified ring ring-modified; do
    says "^$protocol .* possible$"
done
run 0 protocols ring
says 'promises: validity, agreement, termination, stability'
says 'two leaders at once are possible'
says 'heartbeat=50ms'
run 0 protocols --json
check 'protocols --json is JSON' is_json out 'len(r) >= 5 and all(p["name"] and p["promises"] for p in r)'
run 0 protocols --json bully
check 'protocols --json NAME is that one' is_json out '[p["name"] for p in r] == ["bully"]'
refuses "unknown protocol 'bulli'; did you mean 'bully'?" protocols bulli
run 0 lab --json
check 'lab --json lists experiments' is_json out 'r[0]["name"] == "anon" and all(e["summary"] for e in r)'
refuses "unknown protocol 'pol'; did you mean 'pole'?" sim --swarm pol
refuses "unknown option '--jsno'; did you mean '--json'?" protocols --jsno

# ---- explore --------------------------------------------------------------------------------------

run 0 explore bully --budget crash
says '^bully, 2 nodes; budget crash=1$'
says '^[0-9]* states, [0-9]* transitions, depth [0-9]*, '
says '^exhausted: no property that is judged breaks within these bounds'
run 0 explore bully --budget crash --json
check 'explore --json says what is exhausted' is_json out 'r["verdict"] == "exhausted" and r["states"] > 0 and r["budget"] == {"crash": 1}'
run 0 explore lease --budget crash=0,witness,disk,recover
says '^These faults of the budget cannot happen here: recover, witness, disk.$'
run 0 explore pole --budget crash,recover,reboot,witness --json
check 'explore --json names only faults that cannot happen' is_json out '"impossible" not in r'
run 0 explore pole --budget loss,restart --json
check 'explore --json names faults that cannot happen' is_json out 'r["impossible"] == ["restart"]'
run 0 explore bully -o timeout=20t --drift=sf
says '^bully, 2 nodes; options timeout=20t; clocks sf (slow, exact, fast)$'
says 'instants older than 80 ticks count as equal'
run 1 explore bully -o timeout=20t --drift --budget pause --property at-most-one-leader --json
check 'explore --json says with which options and clocks' is_json out 'r["options"] == ["timeout=20t"] and r["rates"] == "ee" and r["horizon_ticks"] == 80'
run 1 explore bully --bitstate 1 --budget pause --property at-most-one-leader
says '^a short trace, ' # states may be missed, so it need not be the shortest
run 0 explore pole -n 1
says '^1 state, 1 transition, '
refuses "names 'crash' twice; for two of them write crash=2" explore bully --budget crash,loss,crash
run 2 explore pole -n 3 --budget pause --states 500
says 'not exhausted: stopped by the number of states (--states)'
run 2 explore pole -n 3 --budget pause --time 10ms --json
check 'explore --json says what stopped it' is_json out 'r["verdict"] == "not exhausted" and "--time" in r["stopped_by"]'
run 2 explore bully --budget crash --bitstate 1
says '^bully, 2 nodes; budget crash=1; a bit-state search$'
says 'not exhausted: stopped by the end of a bit-state search'
run 2 explore pole --budget pause --states 2000 --resume explored
run 0 explore pole --budget pause --resume explored
says '^exhausted: '
refuses "explored. belongs to another search" explore pole --budget crash --resume explored
cp "$CONCLAVE" another && printf x >>another # the program has changed
./another explore pole --budget pause --resume explored >out 2>err
check 'a search goes on only in the program that saved it' [ $? -eq 2 ]
one_line 'another build' "explored. was saved by another build of this program"
rm another
refuses "good.scn. is not a search saved by" explore pole --resume good.scn
refuses "cannot write '/': Is a directory" explore pole --resume /
refuses "cannot write 'no/such/file': No such file" explore pole --resume no/such/file
refuses "cannot write 'no/such/file': No such file" explore pole --trace no/such/file
for option in --resume --scenario --trace; do
    refuses "cannot write '': No such file" explore bully --budget loss "$option" ''
done
run 1 explore bully --budget partition --property at-most-one-leader --scenario two.scn --trace two.trace
says '^broken: at-most-one-leader: '
says 'node 1 LEADS with token 2 (elected)'
says 'node 1: timer 1 (suspect)$'
run 0 sim -q two.scn
check 'explore --trace writes what sim reads' grep -q '"event": "broken", "property": "at-most-one-leader"' two.trace
run 1 explore ring --budget late --property at-most-one-leader --scenario late.scn
check 'a scenario with late messages is manual' grep -q '^manual$' late.scn
run 0 sim late.scn
says '^by hand: [0-9]* steps$'
refuses 'need a file each' explore bully --scenario same --trace same
refuses "cannot write 'no/such/folder.scn': No such file" explore bully --scenario no/such/folder.scn
(ulimit -v 80000; exec "$CONCLAVE" explore pole -n 3 --budget crash,recover,loss,pause --threads 1) >out 2>err
status=$?
check 'explore without memory has no verdict' test "$status" -eq 2
one_line 'explore without memory' 'out of memory'
peak_mb=$(python3 - "$CONCLAVE" explore pole -n 3 --budget crash,recover,loss,pause --states 150000 --memory 30 --threads 2 <<'PYTHON'
import resource, subprocess, sys
subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=False)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10)
PYTHON
)
check "explore --memory 30 takes little more, not $peak_mb MB" test "$peak_mb" -lt 70 # some 100 if only one thread is counted
refuses "unknown protocol 'poel'; did you mean 'pole'?" explore poel
refuses "explore takes one protocol; 'ring' is one too many" explore bully ring
refuses "which protocol?" explore
refuses "unknown budget 'crush'; did you mean 'crash'?" explore bully --budget crush
refuses "unknown property 'at-most-one'; did you mean" explore bully --property at-most-one
refuses "unknown option '--stats'; did you mean '--states'?" explore bully --stats 5
refuses "unknown option 'hartbeat'; did you mean 'heartbeat'?" explore bully -o hartbeat=2t
refuses "not 'sx'" explore bully --drift=sx
refuses "timeliness is not explored" explore local --property timeliness

# ---- oracles --------------------------------------------------------------------------------------

run 0 oracles
says '^worst-case$'
says 'latency/10ms,history'
run 0 oracles --json
check 'oracles --json is JSON' is_json out 'len(r) >= 10 and all(o["formula"] and o["wins"] in ("higher", "lower") for o in r)'
refuses "oracles takes no argument, not 'x'" oracles x
refuses "unknown option '--jsno'; did you mean '--json'?" oracles --jsno

# ---- keygen, sequencer, elect: what needs no network -----------------------------------------------

run 0 keygen
says '^conclave-key-1 [0-9a-f]\{64\}$'
run 0 keygen k1
check 'a key file is for its owner only' [ "$(stat -c %a k1)" = 600 ]
refuses "cannot make the key file 'k1': File exists" keygen k1
run 0 keygen --rotate k1
refuses "cannot make the key file 'k1.next': File exists" keygen --rotate k1
refuses "cannot read the key file 'no-key'" keygen --rotate no-key
refuses 'keygen takes at most one file' keygen a b
refuses 'keygen takes at most one file' keygen --rotate a b
refuses "options are written in full: '--rotate'" keygen --rotat k1
refuses "unknown option '--rtoate'; did you mean '--rotate'?" keygen --rtoate k1
refuses "option '--rotate' requires an argument" keygen --rotate
cat >peers.ini <<'END'
[cluster]
name = orders
generation = 1
key = k1
state = .
[member a]
id = 1
address = 127.0.0.1:7101
[member b]
id = 2
address = 127.0.0.1:7102
END
run 0 members peers.ini --check
says '^cluster orders, generation 1, protocol pole, 2 members$'
says '^   2  b  *127.0.0.1:7102$'
run 0 members peers.ini --json
says '^{"cluster": "orders", "generation": 1, "protocol": "pole", "members": \[{"id": 1, "name": "a",'
cp k1 k2 && chmod 644 k2
sed 's/key = k1/key = k2/' peers.ini >open.ini
run 0 members open.ini
refuses "every user may read the key file './k2'" members open.ini --check
sed 's/^state = ./state = no/' peers.ini >nowhere.ini
refuses "the state folder './no' cannot be used: No such file or directory" members nowhere.ini --check
printf 'colour = red\nport = 7\n' >>peers.ini
run 2 members peers.ini
check "the first unknown key is named" grep -q \
    "peers.ini:12: unknown key of .member b. 'colour'; known: id, address, site, preference" err
check "and the second" grep -q "peers.ini:13: unknown key of .member b. 'port'" err
refuses 'members takes one cluster file, and at most one election' members
run 0 sequencer file:numbers --count 50 --clients 3
says '50 numbers for 3 clients'
says '^gaps  *0 numbers missing in 0 gaps; 0 requests without an answer; 0 numbers given twice$'
says '68 to 98 numbers/s (\[Wiesmann07, Table 1\]'
run 0 sequencer file:numbers --count 5 --list
says '^55$'
run 0 sequencer file:numbers --json
check 'sequencer --json' is_json out 'r["ok"] and r["count"] == 1000 and r["first"] == 56 and r["last"] == 1055
    and r["response_p50_ms"] > 0 and r["numbers_per_s"] > 0'
echo 'no counter' >wrong-numbers
run 1 sequencer file:wrong-numbers
check 'one line about a damaged file' grep -q "'wrong-numbers' is not a counter of conclave, or damaged" err
refuses 'which sequencer?' sequencer
refuses "unknown sequencer 'x'; known: snmp, file" sequencer x:y
refuses '--clients takes a whole number from 1 to 256' sequencer file:n --clients 0
group='multicast:239.255.67.86:7000'
loop='interface=127.0.0.1'
refuses 'there is no network interface .nowhere.' elect e --via "$group?interface=nowhere&insecure&sequencer=file:n"
refuses 'use either key=FILE .* or insecure' elect e --via "$group?$loop&sequencer=file:n"
refuses 'use either key=FILE .* or insecure' elect e --via "$group?$loop&key=k1&insecure&sequencer=file:n"
refuses 'the sequencer is missing; add sequencer=' elect e --via "$group?$loop&insecure"
refuses 'is not a multicast group' elect e --via "multicast:10.0.0.1:7000?$loop&insecure&sequencer=file:n"
refuses 'is not multicast:GROUP:PORT' elect e --via "multicast:239.1.1.1?$loop&insecure&sequencer=file:n"
refuses 'needs a list of members' elect e --via "$group?$loop&insecure&protocol=bully"
refuses "unknown address option 'Q'; known: interface, ttl," elect e --via "$group?$loop&insecure&sequencer=file:n&Q=1"
refuses 'eps/2 > eta' elect e --via "$group?$loop&insecure&sequencer=file:n&eta=1s&eps=1s"
refuses "cannot read the key file 'no-key'" elect e --via "$group?$loop&key=no-key&sequencer=file:n"
refuses "option 'R' is given twice" elect e --via "$group?R=1&R=2"
refuses 'elect takes the name of one election' elect --via "$group"
run 0 elect e --via "$group?$loop&ttl=0&insecure&sequencer=file:n&eta=5ms&eps=20ms&R=1" --changes 1 --json
check 'elect --json' is_json out 'r["election"] == "e" and r["role"] in ("leader", "waiting") and r["self"]'
check 'a single participant leads' grep -q '"role": "leader"' out

# ---- exit statuses of sim -------------------------------------------------------------------------

run 0 sim good.scn
says '^ok$'
run 1 sim wrong.scn
says '^expect leader 3 by 2s: NO: node 1 follows 4$'
says '^FAILED$'
run 0 sim -q good.scn
says '^good.scn: ok$'
printf '%s\n' 'protocol pole' 'nodes 3' 'link * delay 27ms' 'run 2s' >late-links.scn
for option in -q --timeline; do
    run 0 sim $option late-links.scn
    says 'ok, but nothing that is promised was tested$'
done
says '  rtt 54ms but delta 2ms: try profile=wan$'
run 0 sim --runs 2 -q late-links.scn
says '2 runs, 0 failed; .* times; nothing that is promised was tested$'
run 0 sim --runs 2 -q good.scn
says '2 runs, 0 failed; .* times$'
run 1 sim --quiet wrong.scn
says '^wrong.scn:5: expect leader 3 by 2s: NO: node 1 follows 4 (seed 1)$'
run 1 sim -q good.scn wrong.scn good.scn
check 'the files after a failed one are run, too' [ "$(wc -l <out)" -eq 4 ]
run 2 sim -q wrong.scn no-such.scn good.scn
says '^good.scn: ok$'

# ---- bad input: one line that says where, and what to do ------------------------------------------

refuses "cannot read 'no-such.scn': No such file or directory" sim no-such.scn
refuses "cannot read '\.': Is a directory" sim .
printf 'protocol\0bully\n' >binary.scn
refuses 'binary.scn:1:1: this is a binary file' sim binary.scn
cp "$CONCLAVE" program.scn
refuses 'program.scn:1:1: this is a binary file' sim program.scn
: >empty.scn
refuses "empty.scn:1:1: the scenario has no 'protocol' line" sim empty.scn
bad() { # bad PATTERN LINE: the line is number 4 of a scenario
    printf 'protocol bully\nnodes 6\nrun 30s\n%s\n' "$2" >x.scn
    refuses "^conclave: x.scn:4:$1" sim x.scn
}
bad "7: unknown action 'crush'; did you mean 'crash'?" 'at 1s crush 1'
bad "4: time '1' has no unit; write 1ms or 1s" 'at 1 crash 1'
bad "13: '7' is not within the nodes 1..6" 'at 1s crash 7'
bad "42: dist=constant does not allow a jitter" 'link * delay 1ms jitter 1ms dist=constant'
bad "1: unknown word 'frobnicate'" frobnicate
bad '1: this happens after the end of the run' 'at 31s crash 1'
bad "17: unknown property 'peace'" 'expect property peace'
printf 'protocol bully heartbeat=1s timeout=1s\nnodes 3\nrun 1s\n' >x.scn
refuses 'x.scn:1:1: timeout .* does not hold: ' sim x.scn
printf 'protocol bully\nnodes 3\n' >x.scn
refuses "x.scn:2:1: the scenario has no 'run' line" sim x.scn
printf 'protocol bulli\nnodes 3\n' >x.scn
refuses "x.scn:1:10: unknown protocol 'bulli'; did you mean 'bully'?" sim x.scn

# ---- wrong usage ----------------------------------------------------------------------------------

refuses 'which scenario?' sim
refuses "unknown option '--sede'; did you mean '--seed'?" sim --sede 1 good.scn
refuses "--seed takes a whole number from 0 to [0-9]*, not 'x'" sim --seed x good.scn
refuses "--seed takes a whole number" sim --seed -1 good.scn
refuses "--seed takes a whole number" sim --seed 99999999999999999999 good.scn
refuses "--runs takes a whole number from 1" sim --runs 0 good.scn
refuses "--threads takes a whole number from 1" sim --threads 0 good.scn
refuses "option '--seed' requires an argument" sim good.scn --seed
refuses "option '--json' takes no argument" sim good.scn --json=yes
refuses "option '--t' is ambiguous: write it in full" sim good.scn --t
refuses "unknown option '-z'; --help lists" sim good.scn -z
refuses '--trace records one run' sim --trace t --runs 2 good.scn
refuses '--trace records one run' sim --trace t good.scn good.scn
refuses '--json cannot be combined with' sim --json --timeline good.scn
refuses '--json cannot be combined with' sim --json --shrink wrong.scn
refuses '--timeline draws one run' sim --timeline --runs 2 good.scn
refuses "unknown experiment 'modern'; known: anon, auto, classic, local, pole" lab modern
refuses "lab anon takes options only, not 'x'" lab anon x
refuses "lab classic takes options only, not 'x'" lab classic x

# ---- JSON -----------------------------------------------------------------------------------------

run 0 sim --json good.scn
check 'sim --json has the documented keys' is_json out 'list(r) == """scenario protocol options nodes
    seed duration_s events wall_s leaderships views final messages elections faults liveness_judged
    properties expects ok""".split()'
check 'leaderships' is_json out 'all(set(l) == {"node", "from_s", "to_s", "token", "reason"}
    for l in r["leaderships"]) and [l["node"] for l in r["leaderships"]] == [5, 4]'
check 'views' is_json out 'all(list(v) == ["t_s", "node", "leader", "token"] for v in r["views"])'
check 'final' is_json out 'r["final"]["5"] == {"up": False, "leader": 0, "valid": False} and
    r["final"]["4"] == {"up": True, "leader": 4, "valid": True}'
check 'messages' is_json out 'r["messages"]["total"] == sum(r["messages"]["by_type"].values()) and
    r["messages"]["bytes"] > 0 and r["messages"]["lost"] == 0'
check 'elections' is_json out 'r["elections"][1]["fault_t_s"] == 1 and
    1 < r["elections"][1]["detected_s"] <= r["elections"][1]["elected_s"] < 1.3'
check 'properties' is_json out 'all(list(p) == ["promised", "judged", "ok", "at_s", "detail"]
    for p in r["properties"].values()) and r["properties"]["agreement"]["promised"] and
    not r["properties"]["at-most-one-leader"]["promised"]'
check 'expects' is_json out 'r["expects"] == [{"line": 5, "ok": True, "detail": ""}] and r["ok"]'
check 'wall_s is null' is_json out 'r["wall_s"] is None'
run 0 sim --json --timing good.scn
check '--timing measures' is_json out 'r["wall_s"] > 0'
run 1 sim --json wrong.scn
check 'JSON shows a failure, too' is_json out 'not r["ok"] and not r["expects"][0]["ok"]'
run 1 sim --json --runs 5 hunt.scn
check 'one line for each run' [ "$(wc -l <out)" -eq 5 ]
check 'in the order of seeds' is_json out '1 <= r["seed"] <= 5 and r["scenario"] == "hunt.scn"'
check 'and only JSON on stdout' grep -q '^first failure: ' err

# ---- the same seed, the same bytes ----------------------------------------------------------------

"$CONCLAVE" sim --json --seed 77 hunt.scn >a
"$CONCLAVE" sim --json --seed 77 hunt.scn >b
check 'the same seed gives the same bytes' cmp -s a b
"$CONCLAVE" sim --json --seed 78 hunt.scn >c
check 'another seed gives another run' sh -c '! cmp -s a c'
for threads in 1 2 7; do
    "$CONCLAVE" sim --json --runs 20 --threads "$threads" hunt.scn >"threads$threads" 2>err
done
check 'one and two threads agree' cmp -s threads1 threads2
check 'one and seven threads agree' cmp -s threads1 threads7
"$CONCLAVE" sim --seed 77 --trace trace1 hunt.scn >out
"$CONCLAVE" sim --seed 77 --trace trace2 hunt.scn >out
check 'traces agree' cmp -s trace1 trace2
printf 'seed 77\n' | cat hunt.scn - >seeded.scn
"$CONCLAVE" sim --json seeded.scn | sed 's/seeded.scn/hunt.scn/' >b
check 'the seed line of a scenario is like --seed' cmp -s a b

# ---- traces ---------------------------------------------------------------------------------------

run 0 sim --trace good.trace good.scn
check 'a trace is JSON lines' is_json good.trace '"conclave_trace" in r or r["t_s"] >= 0 and r["event"]'
check 'a trace begins with the run' sh -c 'head -n 1 good.trace | grep -q "\"conclave_trace\": 1"'
check 'a trace has the crash' grep -q '"event": "crash", "node": 5' good.trace
run 2 sim --trace no/such/folder/x good.scn
check 'sim reports a trace that it cannot write' grep -q "cannot write 'no/such/folder/x': No such file" err

# ---- many seeds, replay, shrinking ----------------------------------------------------------------

run 0 sim --runs 20 good.scn
says '20 runs, 0 failed'
run 1 sim --runs 20 hunt.scn
says 'runs, [1-9][0-9]* failed'
says '^faults: crash [1-9]'
replay=$(sed -n 's/^first failure: conclave \(sim hunt.scn --seed [0-9]*\) .*/\1/p' out)
seed=${replay##* }
check 'a replay command is given' [ -n "$replay" ]
run 1 $replay
says 'NO: '
run 0 sim --runs "$((seed - 1))" hunt.scn # it was the first failure
run 1 sim --runs 20 --shrink hunt.scn
cp out small.scn
check 'shrunk to few actions' [ "$(grep -c '^at ' small.scn)" -le 4 ]
check 'the shrunk scenario has no random faults' sh -c '! grep -q "^random" small.scn'
check 'shrunk from the first failing seed' grep -q "^seed $seed\$" small.scn
run 1 sim small.scn
says 'expect property token-monotonic: NO: '
cat >overlap.scn <<'SCENARIO'
protocol bully
nodes 5
at 1s partition 1 2 | 3 4 5
at 2s heal
at 3s crash 5
run 5s
SCENARIO
run 0 sim --json overlap.scn
check 'leaderships are listed in the order of their start' is_json out 'len(r["leaderships"]) >= 3 and
    [s["from_s"] for s in r["leaderships"]] == sorted(s["from_s"] for s in r["leaderships"])'
run 2 sim --shrink good.scn
check 'a run that does not fail is not shrunk' [ ! -s out ]
check 'and the reason is printed' grep -q 'good.scn does not fail with seed 1: nothing to shrink' err
run 0 sim --shrink --runs 3 good.scn
check 'nor are several runs' [ ! -s out ]
printf 'protocol bully\nnodes 1\nrandom faults rate 1/s kinds crash,link until 2s\nrun 3s\n' >idle.scn
run 1 sim --runs 5 idle.scn
says "idle.scn:3: the fault 'link' never happened in these runs"

# ---- output that cannot be written ----------------------------------------------------------------

if [ -c /dev/full ]; then
    for arguments in --help --version protocols 'protocols --json' 'sim good.scn' \
        'sim --json good.scn' 'sim --timeline good.scn' 'sim --json --runs 50 hunt.scn' \
        'sim --shrink wrong.scn' 'lab'; do
        status=0
        "$CONCLAVE" $arguments >/dev/full 2>err || status=$?
        checks=$((checks + 1))
        [ "$status" -eq 2 ] || fail "conclave $arguments >/dev/full: exit status $status, not 2"
        grep -q 'cannot write' err || fail "conclave $arguments >/dev/full: does not report it"
    done
    run 2 sim --trace /dev/full good.scn
    check 'a trace that cannot be written is reported' grep -q "cannot write '/dev/full'" err
fi

# ---- colours and bars are for terminals ------------------------------------------------------------

escape=$(printf '\033')
for arguments in 'sim good.scn' 'sim wrong.scn' 'sim --timeline good.scn' 'sim --runs 20 good.scn' \
    'protocols' 'lab'; do
    "$CONCLAVE" $arguments >out 2>err
    checks=$((checks + 1))
    ! grep -q "$escape" out err || fail "conclave $arguments: colours, though stdout is not a terminal"
    [ ! -s err ] || fail "conclave $arguments: a progress bar, though stderr is not a terminal"
done
run 0 sim --timeline "$SOURCE_ROOT/tests/scenario/demo.scn"
check 'COLUMNS is obeyed' sh -c 'COLUMNS=40 "$1" sim --timeline "$2" | grep "^node [0-9]* " |
    awk "length > 40 {bad = 1} {n++} END {exit bad || n == 0}"' sh "$CONCLAVE" "$SOURCE_ROOT/tests/scenario/demo.scn"
check 'a timeline has a row for each node' [ "$(grep -c '^node [1-5] ' out)" -eq 5 ]
check 'a timeline is 100 columns wide' sh -c '[ "$(grep "^node" out | wc -L)" -le 100 ]'
if command -v script >/dev/null; then
    TERM=xterm script -qec "'$CONCLAVE' sim --timeline good.scn" /dev/null >out 2>err </dev/null
    check 'a terminal gets colours' grep -q "$escape" out
    NO_COLOR=1 TERM=xterm script -qec "'$CONCLAVE' sim --timeline good.scn" /dev/null >out 2>err </dev/null
    check 'NO_COLOR is obeyed' sh -c "! grep -q '$escape' out"
    TERM=dumb script -qec "'$CONCLAVE' sim --timeline good.scn" /dev/null >out 2>err </dev/null
    check 'TERM=dumb is obeyed' sh -c "! grep -q '$escape' out"
    TERM=xterm script -qec "'$CONCLAVE' sim --runs 50 good.scn" /dev/null >out 2>err </dev/null
    check 'a terminal sees progress' grep -q ' of 50 runs' out
    TERM=dumb script -qec "'$CONCLAVE' sim --runs 50 good.scn" /dev/null >out 2>err </dev/null
    check 'a dumb terminal shows no progress' sh -c '! grep -q " of 50 runs" out'
    TERM=xterm script -qec "'$CONCLAVE' lab classic" /dev/null >out 2>err </dev/null
    check 'an experiment shows progress' grep -q ' runs, ' out
    for arguments in 'sim --runs 50 good.scn' 'explore pole --nodes 3 --budget crash=1,pause=1 --states 200000 --json' \
        'lab classic'; do
        TERM=xterm script -qec "stty cols 30; '$CONCLAVE' $arguments >/dev/null" /dev/null 2>err </dev/null |
            tr '\r' '\n' | sed "s/$escape\[K//" >out
        check "conclave $arguments: progress fits a narrow terminal" [ "$(wc -L <out)" -lt 30 ]
        check "conclave $arguments: shows progress there" grep -q '[0-9]' out
    done
    NO_COLOR=1 script -qec "stty cols 38; '$CONCLAVE' sim --timeline $SOURCE_ROOT/tests/scenario/demo.scn" \
        /dev/null 2>err </dev/null | tr -d '\r' >out
    check 'a narrow terminal gets narrow rows' \
        sh -c '[ "$(sed -n "/!.*at /q; p" out | wc -L)" -le 38 ] && grep -q "^node 5" out'
fi

# ---- narrow screens --------------------------------------------------------------------------------

# Prints what a command writes to a terminal of 40 columns.
on_a_terminal() {
    python3 -c 'import fcntl, os, pty, struct, sys, termios
pid, terminal = pty.fork()
if pid == 0:
    fcntl.ioctl(2, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 40, 0, 0))
    os.execv(sys.argv[1], sys.argv[1:])
try:
    while text := os.read(terminal, 4096):
        sys.stdout.write(text.decode().replace("\r", ""))
except OSError:
    pass # the other side is closed
os.waitpid(pid, 0)' "$CONCLAVE" "$@"
}
on_a_terminal run x --lease 5s --grace 4s -- true >told
check 'an error is folded on a terminal' [ "$(wc -l <told)" -gt 1 ]
check 'it fits' [ "$(awk '{ if (length($0) > most) most = length($0) } END { print most }' told)" -le 40 ]
run 2 run x --lease 5s --grace 4s -- true
check 'elsewhere it is one line' [ "$(wc -l <err)" -eq 1 ]

# fits COLUMNS FILE: no line is longer, except for a single long word such as a path.
fits() {
    python3 - "$@" <<'PYTHON'
import sys
long = [line for line in open(sys.argv[2], encoding="utf-8").read().splitlines()
        if len(line) > int(sys.argv[1]) and " " in line.strip()]
print("\n".join(long), file=sys.stderr)
sys.exit(bool(long))
PYTHON
}

export CONCLAVE_STATE="$work/state"
"$CONCLAVE" run a-job-with-a-long-name --every 1d --node some-machine -- true
"$CONCLAVE" run a-job-with-a-long-name --node some-machine -- true
for columns in 40 80; do
    for arguments in doctor lab 'lab classic' explain 'explain expired' status stores protocols oracles \
        'history a-job-with-a-long-name' 'status a-job-with-a-long-name' 'protocols pole' \
        'watch a-job-with-a-long-name --changes 1' 'sim good.scn' 'sim --runs 3 hunt.scn' --help 'sim --help' 'run --help' 'doctor --help' \
        'explore lease --budget crash=1' 'explore bully --budget loss=1 --property at-most-one-leader'; do
        COLUMNS=$columns "$CONCLAVE" $arguments >out 2>err
        check "conclave $arguments: $columns columns are enough" fits "$columns" out
        check "conclave $arguments: prints something" [ -s out ]
    done
    COLUMNS=$columns "$CONCLAVE" history a-job-with-a-long-name >out
    check 'nothing is left out' sh -c "tr -s '\n ' ' ' <out | grep -q 'token 1, led for [0-9.]* s, finished .*status 0, token 1'"
    COLUMNS=$columns "$CONCLAVE" history --json a-job-with-a-long-name >out
    check 'JSON is not folded' is_json out 'len(r) == 3'
done
if command -v script >/dev/null; then
    for arguments in doctor 'lab classic' 'history a-job-with-a-long-name' 'run --help' 'sim good.scn'; do
        script -qec "stty cols 40; TERM=dumb '$CONCLAVE' $arguments" /dev/null 2>err </dev/null |
            tr -d '\r' >out
        check "conclave $arguments: a terminal of 40 columns is enough" fits 40 out
        check "conclave $arguments: prints something there" [ -s out ]
    done
fi
run 0 history a-job-with-a-long-name
check 'output to a file is a table' grep -q '^from  .* leader$' out
unset CONCLAVE_STATE

# ---- lab ------------------------------------------------------------------------------------------

run 0 lab
says '^classic '
says '^anon '
run 0 lab anon --runs 150
says 'Eq. 1'
check 'Eq. 1 is met, and overhead linear' sh -c '! grep -q DISAGREES out'
run 0 lab classic
says 'agrees'
check 'every figure agrees with its formula' sh -c '! grep -q -e DISAGREES -e "NOT SHOWN" out'

# ---- an address like that of a host -----------------------------------------------------------------

for verb in 'run x' 'status x' status 'watch x' 'elect x' 'history x' 'resign x' 'forget x' doctor 'store init'; do
    for slashes in // ///; do
        case $verb in
        store*) set -- "sqlite:${slashes}odd.db" ;;
        run*) set -- --via "sqlite:${slashes}odd.db" -- true ;;
        *) set -- --via "sqlite:${slashes}odd.db" ;;
        esac
        status=0
        timeout "$limit_s" "$CONCLAVE" $verb "$@" >out 2>err </dev/null || status=$?
        check "conclave $verb: is refused" [ "$status" -eq 2 -o "$status" -eq 125 ]
        one_line "conclave $verb" 'write sqlite:PATH, here sqlite:odd.db or sqlite:/odd.db$'
    done
done
check 'nothing was made in the root folder' [ ! -e /odd.db ]

# ---- a grace that is too long ------------------------------------------------------------------------

refuses '--grace 3s is too long for --lease 5s' explain --grace 3s
cp err explained
run 2 run x --grace 3s -- true
check 'explain and run say the same' cmp -s err explained
refuses '--grace 2s and --cleanup-time 1s together' explain --grace 2s --cleanup-time 1s

# ---- what the doctor says of an address --------------------------------------------------------------

if "$CONCLAVE" store init etcd://127.0.0.1:1 >out 2>err || ! grep -q 'not installed' err; then
    echo geheim >secret
    chmod 644 secret
    run 1 doctor --via 'etcd://root@127.0.0.1:1?password-file=secret'
    check 'a file that every user can read' sh -c 'grep -q "run chmod o= on it$" out && ! grep -q "to do: .*server" out'
    run 1 doctor --via 'etcd://root@127.0.0.1:1?password-file=nosuch'
    says 'to do: correct the address, or the file or variable that it refers to; no server was asked$'
    run 1 doctor --via etcd://127.0.0.1:1
    says 'to do: check the address, the network, and that the server runs$'
    python3 -c '
import socket
with socket.create_server(("127.0.0.1", 0)) as server:
    print(server.getsockname()[1], flush=True)
    while True:
        server.accept()[0].close()' >port &
    closing=$!
    until [ -s port ] || ! kill -0 $closing; do sleep 0.05; done
    run 1 doctor --via "etcd://127.0.0.1:$(cat port)"
    says 'to do: check that the address has the port of etcd; if the server uses TLS, add tls=yes'
    kill $closing
else
    echo 'skipped: addresses of etcd'
fi

# ---- times -------------------------------------------------------------------------------------------

refuses "^conclave: --wait takes a time like 500ms, 5s, 2min or 1h, not '1d'$" resign x --wait 1d
refuses '^conclave: a lease of 50ms is too short for sqlite: at least 100ms$' elect x --via "sqlite:$work/times.db" --lease 50ms
run 0 store init "sqlite:$work/times.db"
run 0 doctor --via "sqlite:$work/times.db" --lease 1h
check 'times of one style' grep -Eq '[0-9.]+[um]?s on average, [0-9.]+[um]?s at most, with a lease' out

# ---- an address from the environment, and a lease that is too short -----------------------------------

export CONCLAVE_VIA=foo
refuses "^conclave: CONCLAVE_VIA: 'foo' is not an address" status
refuses "^conclave: 'bar' is not an address" status --via bar
unset CONCLAVE_VIA
export CONCLAVE
run 1 run short --via "sqlite:$work/short.db" --lease 100s -- sh -c '"$CONCLAVE" check-lease --min 1000s'
says '^leading for .* with token 1, which is less than 1000s$'
run 0 run short --via "sqlite:$work/short.db" --lease 100s -- sh -c '"$CONCLAVE" check-lease --min 1ms'
says '^leading for .* with token 2$'

# ---- elect, when it takes over -----------------------------------------------------------------------

over="sqlite:$work/over.db"
"$CONCLAVE" run over --via "$over" --node x -- sleep 60 >/dev/null 2>&1 &
leading=$!
until "$CONCLAVE" status over --via "$over" >/dev/null 2>&1 || ! kill -0 $leading; do sleep 0.05; done
timeout "$limit_s" "$CONCLAVE" elect over --via "$over" --node y --changes 2 >elected 2>/dev/null &
electing=$!
"$CONCLAVE" resign over --via "$over" --to y --wait 60s >/dev/null 2>&1 # y leads, and has ended soon
wait $electing
check 'it leads' grep -q 'y leads (this process), token 2 (elected' elected
check 'and does not call a resigned leader gone' sh -c '! grep gone elected'
kill $leading
wait $leading 2>/dev/null

# ---- names that are not there ----------------------------------------------------------------------

names="sqlite:$work/names.db"
for name in k1 n1 r1; do
    run 0 run $name --via "$names" -- true
done
run 1 status nn1 --via "$names"
check 'the nearest name' grep -q "no such election; did you mean 'n1'?$" err
run 0 forget nn1 --via "$names"
one_line 'forget a name that is not there' "nn1: the store has no such election; did you mean 'n1'?$"
run 0 forget something-else --via "$names"
one_line 'forget a name like no other' 'something-else: the store has no such election$'
run 0 forget k1 --via "$names"
check 'forget a name that is there' [ ! -s err ]

# ---- a doctor without space ------------------------------------------------------------------------

mkdir small
if mount -t tmpfs -o size=100k tmpfs small 2>/dev/null; then
    export CONCLAVE_STATE="$work/small"
    run 0 doctor --via "sqlite:$work/small/new.db"
    dd if=/dev/zero of=small/filling bs=4k 2>/dev/null
    run 1 doctor --via "sqlite:$work/small/new.db"
    says '^WRONG *store .*there is no space for it'
    says 'to do: free some space on the disk'
    says '^warning *folder .*no space left'
    run 1 doctor
    says '^WRONG *store .*there is no space for it'
    check 'the doctor leaves nothing' [ "$(ls small)" = filling ]
    unset CONCLAVE_STATE
    mount -o remount,ro small
    run 1 doctor --via "sqlite:$work/small/new.db"
    says 'to do: use a file in a file system that is mounted for writing'
    umount small
else
    echo 'skipped: a small file system of our own' # needs the right to mount
fi

# ---- the examples of the manual --------------------------------------------------------------------

python3 - "$SOURCE_ROOT/docs/scenarios.md" <<'PYTHON'
import re, sys
text = open(sys.argv[1], encoding="utf-8").read()
for number, scenario in enumerate(re.findall(r"^```scn\n(.*?)^```", text, re.M | re.S)):
    open(f"manual{number}.scn", "w", encoding="utf-8").write(scenario)
PYTHON
check 'the manual has examples' [ -e manual2.scn ]
for scenario in manual*.scn; do
    [ -e "$scenario" ] || continue
    run 0 sim -q "$scenario"
done

echo "$checks checks, $failures failed"
[ "$failures" -eq 0 ]
