// The same faults and seed under another protocol, or other settings: the text of the second run.

// `line` is what follows the word protocol: "pole oracle=latency". What was expected of the first
// run, and its settings of stores and sequencers, are of no use to the second.
export function variant(text, line) {
    const kept = text.split("\n").filter((one) => !/^\s*expect\b/.test(one));
    return kept.map((one) => /^\s*protocol\b/.test(one) ? `protocol ${line}` : one).join("\n");
}
