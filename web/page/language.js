// The words of scenarios, for highlighting and completion. The language itself, with every error,
// is src/scenario; docs/scenarios.md describes it.

export const STATEMENTS = ["protocol", "nodes", "seed", "run", "start", "down", "link", "site", "rtt", "clock", "drift-bound", "fast", "disk", "timers", "cost", "sequencer", "store", "manual", "at", "random", "expect"];
export const ACTIONS = ["crash", "reboot", "recover", "start", "pause", "resume", "partition", "heal", "link", "loss", "slow", "duplicate", "reorder", "clock", "disk", "timers", "cost", "resign", "campaign", "report", "peer-down", "sequencer", "store", "fire", "deliver", "lose", "late"];
const INPUTS = ["history-length", "request-rate", "capacity", "load", "score"];
const FOLLOW = {
    link: ["delay", "jitter", "dist=uniform", "dist=normal", "dist=pareto", "loss", "duplicate", "reorder", "down", "up"],
    clock: ["drift", "random"],
    disk: ["delay", "fails", "works", "next", "done", "slow", "fails-durable", "crashes", "well"],
    timers: ["late"],
    store: ["delay", "jitter", "query-delay", "answer-delay", "loss", "notification-loss", "drift", "down", "up", "restart", "extend", "silent", "cut", "mend", "queries", "answers"],
    sequencer: ["delay", "serial", "loss", "start", "boots", "reset", "wipe", "down", "up", "skip", "cut", "mend", "queries", "answers"],
    random: ["faults", "rate", "kinds", "from", "until", "lasting"],
    expect: ["leader", "leaders", "no-leader", "property", "broken", "messages", "changes", "by", "at", "between", "and", "any"],
    campaign: ["on", "off"],
    crash: ["leader", "for", "witnessed"], recover: ["back"], pause: ["leader", "for"], reboot: ["leader", "for"], resign: ["leader", "to"], partition: ["|", "for"],
    report: INPUTS, "peer-down": ["leader", "certain", "at"], start: ["within"], loss: ["for"], slow: ["for"], duplicate: ["for"], reorder: ["for"],
};
const KEYWORDS = new Set([...STATEMENTS, ...ACTIONS, ...Object.values(FOLLOW).flat(), ...INPUTS, "min", "leader", "for", "to"]);

const escape = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");

// One line as HTML: comments, words of the language, times and numbers, names.
export function highlight(line) {
    const at = line.indexOf("#");
    const [code, comment] = at < 0 ? [line, ""] : [line.slice(0, at), line.slice(at)];
    const html = code.replace(/[^\s=,|>]+|[\s=,|>]/g, (word) => {
        if (KEYWORDS.has(word)) {
            return `<i class="k">${word}</i>`;
        }
        return /^-?\d/.test(word) || word === "*" ? `<i class="n">${escape(word)}</i>` : escape(word);
    });
    return comment === "" ? html : `${html}<i class="c">${escape(comment)}</i>`;
}

// Completions at the end of `before`, the line up to the caret: { word, candidates }.
export function complete(before, words) {
    const word = /[^\s,]*$/.exec(before)[0];
    const said = before.slice(0, before.length - word.length).trim().split(/\s+/).filter(Boolean);
    return { word, candidates: candidates(said, words).filter((one) => one.startsWith(word) && one !== word) };
}

function candidates(said, words) {
    const [first, ...rest] = said;
    if (first === undefined) {
        return STATEMENTS;
    }
    if (first === "protocol") {
        const protocol = words?.protocols.find((one) => one.name === rest[0]);
        return rest.length === 0 ? words?.protocols.map((one) => one.name) ?? [] : protocol?.options.flatMap(optionWords) ?? [];
    }
    if (first === "at") {
        return rest.length === 0 ? [] : rest.length === 1 ? ACTIONS : FOLLOW[rest[1]] ?? [];
    }
    if (first === "expect" && (said.at(-1) === "property" || said.at(-1) === "broken")) {
        return words?.properties ?? [];
    }
    if (first === "expect" && said.at(-1) === "messages") {
        return [...new Set(words?.protocols.flatMap((one) => one.messages) ?? [])];
    }
    return FOLLOW[first] ?? [];
}

function optionWords(option) {
    const choices = option.choices ? option.choices.split("|") : [option.default];
    return choices.map((choice) => `${option.name}=${choice}`);
}
