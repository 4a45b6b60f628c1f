// A node's promise to another, and until when: read from the messages that make it.
//
// A process of `local` is locked to the one it supports; one of `pole` follows one leader for its
// lease. A trace does not contain the states of cores, but it has their messages.
import { seconds } from "./format.js";

const RULES = {
    local: { type: "REPLY", says: (fields) => fields.supports, option: "lock", word: "locked to", release: "RELEASE" },
    pole: { type: "FOLLOW", says: () => true, option: "lease", word: "promised to", release: "RELEASE" },
};

// Applies a record of a message: its sender may make a promise, its receiver may be released from
// one.
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
