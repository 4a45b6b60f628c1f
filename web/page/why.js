// Why a node believes what it does: from the belief back to the message or timer that caused it, to
// the sender of the message, and so on, up to a fault or the start.
//
// A core changes its belief in a step, and the event of that step is the record right before it in
// the trace. A timer fires because messages did not come: for a timer, the latest fault is named,
// if there was one since the node last changed its belief.
import { instant, span } from "./format.js";

const STEPS_MAX = 40;
const TRIGGERS = new Set(["deliver", "timer", "start", "wake", "answer", "store-answer"]);
const AT_NODE = /^at \S+ (crash|reboot|recover|start|pause|resume|resign|campaign|report|told) (\d+)/;

const acts = (record) => record.event === "deliver" ? record.to : record.node;

function isTriggerOf(record, node) {
    if (record.event === "action") {
        const match = AT_NODE.exec(record.detail ?? "");
        return match !== null && Number(match[2]) === node;
    }
    return TRIGGERS.has(record.event) && acts(record) === node;
}

function triggerBefore(trace, index, node) {
    for (let at = index - 1; at >= 0; at--) {
        if (isTriggerOf(trace.records[at], node)) {
            return trace.records[at];
        }
    }
    return null;
}

// The core's own notes in the step that this record belongs to.
function notesAround(trace, index, node) {
    const { records } = trace;
    const notes = [];
    const take = (record) => {
        if (record.event === "note" && record.node === node) {
            notes.push(record.text);
        }
    };
    for (let at = index - 1; at >= 0 && records[at].t_s === records[index].t_s && !isTriggerOf(records[at], node); at--) {
        take(records[at]);
    }
    return notes.reverse();
}

function faultBefore(trace, index, node) {
    let since = 0;
    for (let i = trace.beliefs.length - 1; i >= 0; i--) {
        const at = trace.beliefs[i];
        if (at < index && trace.records[at].node === node) {
            since = at;
            break;
        }
    }
    for (let i = trace.faults.length - 1; i >= 0; i--) {
        const at = trace.faults[i];
        if (at < index && at > since) {
            return trace.records[at];
        }
    }
    return null;
}

export function describe(trace, record) {
    switch (record.event) {
    case "belief":
        if (record.leader === 0) {
            return `node ${record.node} knows no leader (${record.reason})`;
        }
        return record.leader === record.node
            ? `node ${record.node} leads with token ${record.token} (${record.reason})`
            : `node ${record.node} follows ${record.leader}, token ${record.token} (${record.reason})`;
    case "deliver": {
        const send = trace.send(record.message);
        const took = send ? ` after ${span(record.t_s - send.t_s)}` : "";
        return `${record.type} of node ${record.from} reaches node ${record.to}${took}`;
    }
    case "send":
        return `node ${record.from} sends ${record.type} to ${record.to}`;
    case "lost":
        return `${record.type} from ${record.from} to ${record.to} is lost`;
    case "unreachable":
        return `${record.type} from ${record.from} cannot reach ${record.to}`;
    case "dropped":
        return `${record.type} from ${record.from} arrives at ${record.to}, which is down`;
    case "timer":
        return `a timer of node ${record.node} is due (timer ${record.timer})`;
    case "start":
        return `node ${record.node} starts`;
    case "wake":
        return `node ${record.node} wakes up`;
    case "crash":
        return `node ${record.node} crashes`;
    case "pause":
        return `node ${record.node} stands still`;
    case "persist":
        return `node ${record.node} saves its record`;
    case "persist-failed":
        return `node ${record.node} could not save its record`;
    case "answer":
        return `the sequencer gives node ${record.node} the number ${record.number}`;
    case "ask":
        return `node ${record.node} asks the sequencer`;
    case "store-ask":
        return `node ${record.node} asks the store: ${record.verb}`;
    case "store-answer":
        return record.verdict === "changed" ? `the store notifies node ${record.node}`
            : `the store answers node ${record.node}: ${record.verdict}, token ${record.token}`;
    case "renew":
        return `node ${record.node} may lead on`;
    case "note":
        return `node ${record.node}: ${record.text}`;
    case "broken":
        return `property ${record.property} breaks: ${record.detail}`;
    case "action":
        return `fault: ${(record.detail ?? "").replace(/^at \S+ /, "")}`;
    default:
        return record.event;
    }
}

// Steps from the record at `index` back: { record, text, notes }.
export function chain(trace, index) {
    const steps = [];
    let record = trace.records[index];
    const seen = new Set();
    while (record && steps.length < STEPS_MAX && !seen.has(record.index)) {
        seen.add(record.index);
        const node = acts(record) ?? record.from;
        steps.push({ record, text: describe(trace, record), notes: node ? notesAround(trace, record.index, node) : [] });
        record = causeOf(trace, record);
    }
    return steps;
}

function causeOf(trace, record) {
    switch (record.event) {
    case "deliver":
        return trace.send(record.message) ?? null;
    case "send":
        return triggerBefore(trace, record.index, record.from);
    case "timer":
        return faultBefore(trace, record.index, record.node);
    case "store-answer":
        return record.verdict === "changed" ? faultBefore(trace, record.index, record.node) : findBack(trace, record.index, (one) => one.event === "store-ask" && one.node === record.node && one.request === record.request);
    case "answer":
        return findBack(trace, record.index, (one) => one.event === "ask" && one.node === record.node);
    case "start":
    case "wake":
    case "crash":
    case "pause":
        return findBack(trace, record.index, (one) => one.event === "action" && isTriggerOf(one, record.node) && one.t_s === record.t_s);
    case "action":
        return null;
    default:
        return triggerBefore(trace, record.index, record.node);
    }
}

function findBack(trace, index, isIt) {
    for (let at = index - 1; at >= 0; at--) {
        if (isIt(trace.records[at])) {
            return trace.records[at];
        }
    }
    return null;
}

// The latest change of belief of a node at or before an instant; -1: there was none.
export function beliefBefore(trace, node, atS) {
    for (let i = trace.beliefs.length - 1; i >= 0; i--) {
        const record = trace.records[trace.beliefs[i]];
        if (record.node === node && record.t_s <= atS) {
            return record.index;
        }
    }
    return -1;
}

export const when = (record) => instant(record.t_s);
