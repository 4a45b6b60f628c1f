// What a node has promised to another, and until when: read from the messages that promise it.
//
// `local` locks itself to whom it supports, `pole` follows one leader for the time of its lease.
// Cores do not tell their state to a trace; what they say to each other does.
import { seconds } from "./format.js";

const RULES = {
    local: { type: "REPLY", says: (fields) => fields.supports, option: "lock", word: "locked to", release: "RELEASE" },
    pole: { type: "FOLLOW", says: () => true, option: "lease", word: "promised to", release: "RELEASE" },
};

// Counts a record of a message: its sender may promise, its receiver may be released.
export function promiseOf(moment, record) {
    const rule = RULES[moment.trace.header.protocol];
    if (!rule) {
        return;
    }
    if (record.event === "send" && record.type === rule.type && rule.says(record.fields ?? {})) {
        const lasts = seconds(moment.trace.header.options?.[rule.option] ?? "0s");
        moment.nodes[record.from - 1].promise = { to: record.to, until: record.t_s + lasts, word: rule.word };
    } else if (record.event === "deliver" && record.type === rule.release) {
        const node = moment.nodes[record.to - 1];
        if (node.promise?.to === record.from) {
            node.promise = null;
        }
    }
}
