// A trace as the page shows it: the records in their order, and what follows from them.
//
// docs/scenarios.md describes the format. A trace comes from the simulator in this page, from
// `conclave sim --trace`, from real processes (join.js) or from any other program that writes these
// lines; it may still be growing.

const ENDS_FLIGHT = new Set(["deliver", "lost", "unreachable", "dropped"]);
const SILENT = new Set(["send", "deliver", "lost", "unreachable", "dropped", "timer", "persist", "renew"]);

// A leadership from when to when. `untils` has every valid-until that was given: [since, until].
function leadership(record) {
    return { node: record.node, token: record.token, from: record.t_s, to: null, untils: [[record.t_s, record.valid_until_s]] };
}

export class Trace {
    header = null;
    records = [];
    flights = []; // { from, to, type, number, sent, ends, fate, record }
    leaderships = [];
    beliefs = []; // indices of records
    faults = []; // the same for actions after the beginning
    broken = [];
    types = new Map(); // of messages: type -> its number, in the order of appearance
    nowS = 0; // all events up to here are known
    isComplete = false;
    asked = ""; // "store" or "sequencer", if the nodes ask one
    #rest = "";
    #byNumber = new Map(); // message -> its flight
    #leads = new Map(); // node -> its open leadership
    #asks = new Map(); // node -> its latest question

    // Adds more of the text. Throws if it is not a trace.
    add(text) {
        const lines = (this.#rest + text).split("\n");
        this.#rest = lines.pop();
        for (const line of lines) {
            if (line !== "") {
                this.#take(JSON.parse(line));
            }
        }
    }

    #take(record) {
        if (this.header === null) {
            if (record.conclave_trace !== 1) {
                throw new Error("this is no trace of conclave: its first line does not say so");
            }
            this.header = record;
            return;
        }
        const index = this.records.push(record) - 1;
        record.index = index;
        this.nowS = Math.max(this.nowS, record.t_s);
        if (record.event === "send") {
            this.#send(record);
        } else if (ENDS_FLIGHT.has(record.event)) {
            this.#arrive(record);
        } else if (record.event === "ask" || record.event === "store-ask") {
            this.#ask(record);
        } else if (record.event === "answer" || record.event === "store-answer") {
            this.#answer(record);
        } else if (record.event === "belief") {
            this.beliefs.push(index);
            this.#believe(record);
        } else if (record.event === "renew") {
            this.#leads.get(record.node)?.untils.push([record.t_s, record.valid_until_s]);
        } else if (record.event === "crash") {
            this.#stopLeading(record.node, record.t_s);
        } else if (record.event === "broken") {
            this.broken.push(record);
        } else if (record.event === "action" && record.detail?.startsWith("at ")) {
            this.faults.push(index);
        }
    }

    #name(type) {
        if (!this.types.has(type)) {
            this.types.set(type, this.types.size);
        }
    }

    // Questions and answers fly to and from node 0, the middle of the stage. A trace does not say
    // when a question arrived: half of the time is a guess.
    #ask(record) {
        this.asked = record.event === "ask" ? "sequencer" : "store";
        const type = record.verb ?? "question";
        this.#name(type);
        const flight = { from: record.node, to: 0, type, sent: record.t_s, ends: null, fate: "", record };
        this.flights.push(flight);
        this.#asks.set(record.node, flight);
    }

    #answer(record) {
        const ask = this.#asks.get(record.node);
        const isNotice = record.verdict === "changed" || !ask || ask.ends !== null;
        const middle = isNotice ? record.t_s : (ask.sent + record.t_s) / 2;
        if (!isNotice) {
            Object.assign(ask, { ends: middle, fate: "deliver" });
        }
        const type = record.verdict ?? "number";
        this.#name(type);
        let at = this.flights.length;
        while (at > 0 && this.flights[at - 1].sent > middle) {
            at--; // flights stay in the order of sending
        }
        this.flights.splice(at, 0, { from: 0, to: record.node, type, sent: middle, ends: record.t_s, fate: "deliver", record });
    }

    #send(record) {
        this.#name(record.type);
        const flight = { from: record.from, to: record.to, type: record.type, sent: record.t_s, ends: null, fate: "", record };
        if (this.header.traced?.includes(record.to) === false) {
            Object.assign(flight, { ends: record.t_s, fate: "deliver" }); // its end is unknown: drawn as if it arrived
        }
        this.flights.push(flight);
        this.#byNumber.set(record.message, flight);
    }

    // The second copy of a duplicated message is a flight of its own.
    #arrive(record) {
        let flight = this.#byNumber.get(record.message);
        if (!flight) {
            return;
        }
        if (flight.ends !== null) {
            flight = { ...flight };
            this.flights.push(flight);
        }
        flight.ends = record.t_s;
        flight.fate = record.event;
    }

    #believe(record) {
        const leads = record.leader === record.node && record.leader !== 0;
        const open = this.#leads.get(record.node);
        if (open && (!leads || open.token !== record.token)) {
            this.#stopLeading(record.node, record.t_s);
        }
        if (leads && !this.#leads.has(record.node)) {
            const begun = leadership(record);
            this.#leads.set(record.node, begun);
            this.leaderships.push(begun);
        }
    }

    #stopLeading(node, atS) {
        const open = this.#leads.get(node);
        if (open) {
            open.to = atS;
            this.#leads.delete(node);
        }
    }

    get nodeCount() {
        return this.header?.nodes ?? 0;
    }

    get durationS() {
        return this.header?.duration_s ?? 0;
    }

    send(number) {
        return this.#byNumber.get(number)?.record;
    }

    // The first record at or after that instant; records.length: there is none.
    indexAfter(atS) {
        return firstThat(this.records, (record) => record.t_s > atS);
    }

    indexFrom(atS) {
        return firstThat(this.records, (record) => record.t_s >= atS);
    }
}

// For a list that begins with elements for which isSo() is false, followed by others: the first of
// the others.
function firstThat(list, isSo) {
    let [low, high] = [0, list.length];
    while (low < high) {
        const middle = (low + high) >> 1;
        if (isSo(list[middle])) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}

// Until when a leadership was valid, as its holder knew it at that instant; null: no end of its own.
export function validUntil(leadership, atS) {
    const next = firstThat(leadership.untils, ([since]) => since > atS);
    const [since, until] = leadership.untils[Math.max(0, next - 1)];
    return { since, until };
}

// Does it lead at that instant, as its application would see it?
export function isValid(leadership, atS) {
    if (atS < leadership.from || (leadership.to !== null && atS >= leadership.to)) {
        return false;
    }
    const { until } = validUntil(leadership, atS);
    return until === null || atS < until;
}

export const isQuiet = (record) => SILENT.has(record.event);
