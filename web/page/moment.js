// The state at an instant, found by going through the records of a trace up to there.
//
// Forwards these are a few records per frame; backwards it begins again, which takes less than a
// frame even for long traces.
import { seconds } from "./format.js";
import { promiseOf } from "./promises.js";

function freshNode(id) {
    return { id, isUp: false, isPaused: false, hasStarted: false, leader: 0, token: 0, promise: null };
}

// "1-3", "2>4", "*": the directed pairs that a link statement means.
function* pairs(links, nodeCount) {
    const match = /^(\*|\d+)(?:([->])(\*|\d+))?$/.exec(links);
    if (!match) {
        return;
    }
    const all = Array.from({ length: nodeCount }, (_, i) => i + 1);
    const set = (text) => text === undefined || text === "*" ? all : [Number(text)];
    for (const a of set(match[2] ? match[1] : "*")) {
        for (const b of set(match[3])) {
            if (a !== b) {
                yield [a, b];
                if (match[2] !== ">") {
                    yield [b, a];
                }
            }
        }
    }
}

export class Moment {
    constructor(trace) {
        this.trace = trace;
        this.#begin();
    }

    #begin() {
        this.next = 0; // the first record that has not been applied yet
        this.atS = 0;
        this.nodes = Array.from({ length: this.trace.nodeCount }, (_, i) => freshNode(i + 1));
        this.groups = null; // by node, while there is a partition
        this.partEndsS = null; // when it ends by itself
        this.cuts = new Set(); // "1>2"
        this.weak = new Map(); // "1>2" -> attributes of the link
        this.store = { isUp: true };
    }

    // Applies everything up to and including that instant.
    seek(atS) {
        if (atS < this.atS || this.nodes.length !== this.trace.nodeCount) {
            this.#begin();
        }
        const { records } = this.trace;
        while (this.next < records.length && records[this.next].t_s <= atS) {
            this.#apply(records[this.next++]);
        }
        this.atS = atS;
        return this;
    }

    #apply(record) {
        const node = this.nodes[record.node - 1];
        switch (record.event) {
        case "start":
            Object.assign(node, freshNode(node.id), { isUp: true, hasStarted: true });
            break;
        case "crash":
            Object.assign(node, freshNode(node.id), { hasStarted: true });
            break;
        case "pause":
            node.isPaused = true;
            break;
        case "wake":
            node.isPaused = false;
            break;
        case "belief":
            Object.assign(node, { leader: record.leader, token: record.token });
            break;
        case "action":
            this.#act(record.detail ?? "", record.t_s);
            break;
        case "send":
        case "deliver":
            promiseOf(this, record);
            break;
        }
    }

    // A partition that was made for a time ends by a heal, too, but cut links stay cut.
    #heal(atS) {
        const isItsEnd = this.groups !== null && this.partEndsS !== null && Math.abs(atS - this.partEndsS) < 1e-6;
        this.groups = null;
        if (!isItsEnd) {
            this.cuts.clear();
        }
    }

    #act(detail, atS) {
        const [verb, ...words] = detail.replace(/^at \S+ /, "").split(" ");
        if (verb === "partition") {
            this.groups = this.#parts(words);
            const lasts = words.indexOf("for");
            this.partEndsS = lasts >= 0 ? atS + seconds(words[lasts + 1]) : null;
        } else if (verb === "heal") {
            this.#heal(atS);
        } else if (verb === "link") {
            this.#link(words);
        } else if (verb === "store" && (words[0] === "down" || words[0] === "up")) {
            this.store.isUp = words[0] === "up";
        }
    }

    #parts(words) {
        const groups = new Array(this.nodes.length).fill(0);
        let group = 1;
        for (const word of words) {
            if (word === "for") {
                break;
            } else if (word === "|") {
                group++;
            } else {
                groups[Number(word) - 1] = group;
            }
        }
        return groups;
    }

    #link([links, ...attributes]) {
        for (const [a, b] of pairs(links, this.nodes.length)) {
            const key = `${a}>${b}`;
            if (attributes.includes("down")) {
                this.cuts.add(key);
            } else if (attributes.includes("up")) {
                this.cuts.delete(key);
            }
            if (links !== "*" && !attributes.includes("down") && !attributes.includes("up")) {
                this.weak.set(key, attributes.join(" "));
            }
        }
    }

    isCut(a, b) {
        return this.cuts.has(`${a}>${b}`) || (this.groups !== null && this.groups[a - 1] !== this.groups[b - 1]);
    }
}
