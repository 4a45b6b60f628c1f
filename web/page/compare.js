// The text of the second run: the same faults and seed under another protocol, or with other
// options.

// `line` is what follows the word protocol: "pole oracle=latency". The expectations of the first
// run, and its settings of stores and sequencers, are left out.
export function variant(text, line) {
    const kept = text.split("\n").filter((one) => !/^\s*expect\b/.test(one));
    return kept.map((one) => /^\s*protocol\b/.test(one) ? `protocol ${line}` : one).join("\n");
}
