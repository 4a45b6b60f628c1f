// Joins traces of single processes (`conclave elect --trace`) into one trace, which the page shows.
//
// Each process wrote what it saw, by the clock of its machine, of which began_s is the offset:
// files of one machine fit together. It numbered the messages it sent, not those it received: so a
// received message is matched with the latest sent one that has the same content.

const SILENT_S = 1; // a process without a record for so long, while others have some, has ended: running ones have timers

function read(text) {
    const lines = text.split("\n").filter((line) => line !== "");
    if (!text.endsWith("\n")) {
        lines.pop(); // being written, or its process was killed
    }
    const [header, ...records] = lines.map((line) => JSON.parse(line));
    return { header: header ?? {}, records };
}

function check(parts) {
    const [first] = parts;
    for (const { header } of parts) {
        if (header.conclave_trace !== 1 || header.self === undefined) {
            throw new Error("several files can be shown together only if each is the trace of one process");
        }
        if (header.protocol !== first.header.protocol || header.scenario !== first.header.scenario || header.nodes !== first.header.nodes) {
            throw new Error("these are traces of different elections");
        }
    }
}

// Where processes have no ids, each label gets one: first the labels of the processes that wrote
// these traces.
function numberByLabel(parts) {
    const ids = new Map(parts.map(({ header }, i) => [header.label, i + 1]));
    for (const { header, records } of parts) {
        const self = ids.get(header.label);
        for (const record of records) {
            if (record.label !== undefined && !ids.has(record.label)) {
                ids.set(record.label, ids.size + 1);
            }
            if (record.event === "belief" && record.leader !== 0) {
                record.leader = ids.get(record.label);
            }
            for (const field of ["node", "from", "to"]) {
                record[field] &&= self; // 0 stays: the group, or an unknown process
            }
        }
        header.self = self;
    }
    return ids.size;
}

const sameWords = (record, to) => `${to} ${record.type} ${JSON.stringify(record.fields ?? {})}`;

// Gives each message its number. A message to all becomes one message for each process that could
// hear it.
class Messages {
    count = 0;
    out = [];
    #waiting = new Map(); // content -> sends that no process has received yet

    constructor(traced) {
        this.traced = traced; // node -> [first, last] instant of its trace
    }

    take(record) {
        if (record.event === "send") {
            const others = [...this.traced.keys()].filter((id) => id !== record.from);
            for (const to of record.to === 0 ? others : [record.to]) {
                this.#send({ ...record, to, message: ++this.count });
            }
        } else if (record.event === "deliver") {
            this.#deliver(record);
        } else {
            this.out.push(record);
        }
    }

    #send(record) {
        const words = sameWords(record, record.to);
        this.#waiting.set(words, [...this.#waiting.get(words) ?? [], record]);
        this.out.push(record);
    }

    // The sender's trace may be missing: then nothing else is known of the message.
    #deliver({ fields, ...record }) {
        const words = sameWords({ ...record, fields }, record.to);
        const sends = this.#waiting.get(words) ?? [];
        const index = sends.findLastIndex((send) => record.from === 0 || send.from === record.from);
        if (index >= 0) {
            const [send] = sends.splice(index, 1);
            this.out.push({ ...record, from: send.from, message: send.message });
            return;
        }
        const send = { ...record, event: "send", message: ++this.count, fields };
        delete send.delay_max_s;
        if (record.from !== record.to) { // a message of a node to itself is not sent
            this.out.push(send);
        }
        this.out.push({ ...record, message: send.message });
    }

    // Messages that a running receiver never got.
    lost() {
        for (const send of [...this.#waiting.values()].flat()) {
            const [first, last] = this.traced.get(send.to) ?? [Infinity, 0];
            if (first <= send.t_s && send.t_s < last - SILENT_S) {
                const { fields, ...record } = send;
                this.out.push({ ...record, event: "lost" });
            }
        }
    }
}

// The text of one trace from those of one or several processes. A trace of all nodes stays as it
// is.
export function join(texts) {
    const parts = texts.map(read);
    if (parts.length === 1 && parts[0].header.self === undefined) {
        return texts[0];
    }
    check(parts);
    const { header } = parts[0];
    const isAnonymous = parts.some(({ records }) => records.some((record) => record.label !== undefined || (record.event === "send" && record.to === 0)));
    const nodes = isAnonymous ? numberByLabel(parts) : header.nodes;
    const beganS = Math.min(...parts.map((part) => part.header.began_s));
    const shift = (atS, part) => Number((atS + part.header.began_s - beganS).toFixed(9));
    const traced = new Map();
    for (const part of parts) {
        for (const record of part.records) {
            record.t_s = shift(record.t_s, part);
            if (record.valid_until_s) {
                record.valid_until_s = shift(record.valid_until_s, part);
            }
        }
        const [first, last] = [part.records[0]?.t_s ?? 0, part.records.at(-1)?.t_s ?? 0];
        const known = traced.get(part.header.self) ?? [first, last];
        traced.set(part.header.self, [Math.min(known[0], first), Math.max(known[1], last)]);
    }
    const endS = Math.max(...[...traced.values()].map(([, last]) => last));
    for (const { header: { self }, records } of parts) {
        const lastS = records.at(-1)?.t_s ?? endS;
        if (lastS < endS - SILENT_S) {
            records.push({ t_s: lastS, event: "crash", node: self });
        }
    }
    const messages = new Messages(traced);
    const inOrder = (list) => list.sort((a, b) => a.t_s - b.t_s);
    inOrder(parts.flatMap((part) => part.records)).forEach((record) => messages.take(record));
    messages.lost();
    const { self, label, began_s: _, ...rest } = header;
    const first = { ...rest, nodes, duration_s: endS, traced: [...traced.keys()] };
    return [first, ...inOrder(messages.out)].map((one) => `${JSON.stringify(one)}\n`).join("");
}
