// tests/web/join.mjs TRACE... - joins traces of processes as the page does, and prints the result
// as JSON; see tests/system/test_traces.py.
import { readFileSync } from "node:fs";
import { join } from "../../web/page/join.js";
import { Moment } from "../../web/page/moment.js";
import { Trace } from "../../web/page/trace.js";
import { chain } from "../../web/page/why.js";

const trace = new Trace();
trace.add(join(process.argv.slice(2).map((path) => readFileSync(path, "utf8"))));
new Moment(trace).seek(trace.durationS); // every record can be counted
const delivered = trace.records.filter((record) => record.event === "deliver" && record.from !== record.to);
const sentBefore = (record) => trace.send(record.message)?.index < record.index && trace.send(record.message).t_s < record.t_s;
console.log(JSON.stringify({
    nodes: trace.nodeCount,
    records: trace.records.length,
    leaders: [...new Set(trace.leaderships.map((one) => one.node))],
    delivered: delivered.length,
    matched: delivered.filter(sentBefore).length,
    lost: trace.records.filter((record) => record.event === "lost").length,
    crashed: trace.records.filter((record) => record.event === "crash").map((record) => record.node),
    deepest: Math.max(...trace.beliefs.map((index) => chain(trace, index).length)),
}));
