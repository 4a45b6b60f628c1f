// The timeline: a lane for each node shows when it led, which leader it followed, and when it was
// down or paused. Faults are lines through all lanes, and each change of belief has a mark.
//
// A pointer on it moves the playhead; a click on a mark asks for the reasons.
import { ofNode, theme } from "./palette.js";

const LANE_PX = 20;
const LEFT_PX = 34;
const TOP_PX = 20;
const MARK_PX = 6;

export class Timeline {
    // `on` has seek(atS) and why(index of a belief).
    constructor(canvas, on) {
        this.canvas = canvas;
        this.on = on;
        this.from = 0; // the shown part
        this.to = 1;
        this.playhead = 0;
        canvas.addEventListener("pointerdown", (event) => this.#press(event));
        canvas.addEventListener("pointermove", (event) => event.buttons && this.isSeeking && this.on.seek(this.#timeAt(event.offsetX)));
        canvas.addEventListener("pointerup", () => this.isSeeking = false);
        canvas.addEventListener("wheel", (event) => this.#wheel(event), { passive: false });
        new ResizeObserver(() => this.#resize()).observe(canvas.parentElement);
    }

    show(trace) {
        this.trace = trace;
        this.from = 0;
        this.to = trace.durationS || 1;
        this.#resize();
    }

    // Zooms around the playhead: 2 shows half as much.
    zoom(factor, around = this.playhead) {
        const whole = this.trace.durationS || 1;
        const length = Math.min(whole, Math.max(1e-4, (this.to - this.from) / factor));
        const share = (around - this.from) / (this.to - this.from);
        this.from = Math.max(0, Math.min(whole - length, around - share * length));
        this.to = this.from + length;
        this.draw();
    }

    #resize() {
        if (!this.trace) {
            return;
        }
        const width = this.canvas.parentElement.clientWidth;
        const height = TOP_PX + LANE_PX * this.trace.nodeCount + 20;
        const scale = window.devicePixelRatio || 1;
        Object.assign(this.canvas, { width: width * scale, height: height * scale });
        Object.assign(this.canvas.style, { width: `${width}px`, height: `${height}px` });
        this.scale = scale;
        this.width = width;
        this.height = height;
        this.draw();
    }

    #x(atS) {
        return LEFT_PX + (atS - this.from) / (this.to - this.from) * (this.width - LEFT_PX - 8);
    }

    #timeAt(x) {
        const atS = this.from + (x - LEFT_PX) / (this.width - LEFT_PX - 8) * (this.to - this.from);
        return Math.max(0, Math.min(this.trace.durationS, atS));
    }

    #y(node) {
        return TOP_PX + LANE_PX * (node - 1);
    }

    moveTo(atS) {
        this.playhead = atS;
        if (atS > this.to || atS < this.from) { // the shown part follows it
            const length = this.to - this.from;
            this.from = Math.max(0, Math.min(this.trace.durationS - length, atS - length / 10));
            this.to = this.from + length;
        }
        this.draw();
    }

    draw() {
        if (!this.trace?.header || !this.width) {
            return;
        }
        const look = theme();
        this.#drawAllButPlayhead(look);
        const pen = this.canvas.getContext("2d");
        pen.setTransform(1, 0, 0, 1, 0, 0);
        pen.clearRect(0, 0, this.canvas.width, this.canvas.height);
        pen.drawImage(this.picture, 0, 0);
        pen.setTransform(this.scale, 0, 0, this.scale, 0, 0);
        this.#drawPlayhead(pen, look);
    }

    // Kept as an image, and drawn again only when it has changed: the playhead moves sixty times a
    // second, the rest stays.
    #drawAllButPlayhead(look) {
        const key = [this.from, this.to, this.canvas.width, this.canvas.height, this.trace.records.length, this.trace.nowS, look.ink].join();
        if (this.drawnKey === key && this.drawnTrace === this.trace) {
            return;
        }
        this.drawnKey = key;
        this.drawnTrace = this.trace;
        this.picture ??= document.createElement("canvas");
        Object.assign(this.picture, { width: this.canvas.width, height: this.canvas.height });
        const pen = this.picture.getContext("2d");
        pen.setTransform(this.scale, 0, 0, this.scale, 0, 0);
        pen.font = "12px system-ui, sans-serif";
        this.#drawLanes(pen, look);
        this.#drawLives(pen, look);
        this.#drawBeliefs(pen, look);
        this.#drawLeaderships(pen);
        this.#drawFaults(pen, look);
        this.#drawScale(pen, look);
    }

    #drawLanes(pen, look) {
        pen.textAlign = "right";
        pen.textBaseline = "middle";
        for (let id = 1; id <= this.trace.nodeCount; id++) {
            pen.fillStyle = look.line;
            pen.globalAlpha = 0.35;
            pen.fillRect(LEFT_PX, this.#y(id) + LANE_PX / 2, this.width - LEFT_PX - 8, 1);
            pen.globalAlpha = 1;
            pen.fillStyle = look.ink;
            pen.fillText(String(id), LEFT_PX - 8, this.#y(id) + LANE_PX / 2);
        }
    }

    #bar(pen, node, from, to, top, height) {
        const x = Math.max(LEFT_PX, this.#x(from));
        const end = Math.min(this.width - 8, this.#x(to));
        if (end >= x) {
            pen.fillRect(x, this.#y(node) + top, Math.max(1.5, end - x), height);
        }
    }

    // Down: grey; paused: grey and thin.
    #drawLives(pen, look) {
        const since = new Map();
        const end = (record) => {
            const began = since.get(record.node);
            if (began) {
                pen.fillStyle = look.quiet;
                pen.globalAlpha = 0.35;
                const thin = began.event === "pause";
                this.#bar(pen, record.node, began.t_s, record.t_s, thin ? 7 : 3, thin ? 6 : LANE_PX - 6);
                pen.globalAlpha = 1;
                since.delete(record.node);
            }
        };
        for (const record of this.#lifeRecords()) {
            end(record);
            if (record.event === "crash" || record.event === "pause") {
                since.set(record.node, record);
            }
        }
        for (const node of [...since.keys()]) {
            end({ node, t_s: this.trace.nowS });
        }
    }

    #lifeRecords() {
        if (this.lifeCount !== this.trace.records.length || this.lifeOf !== this.trace) {
            this.lifeOf = this.trace;
            this.lifeCount = this.trace.records.length;
            const kinds = new Set(["start", "crash", "pause", "wake"]);
            this.lives = this.trace.records.filter((record) => kinds.has(record.event));
        }
        return this.lives;
    }

    // The leader that each node follows: a thin line in that leader's colour, and a mark where it
    // changed.
    #drawBeliefs(pen, look) {
        const last = new Map();
        const line = (record, to) => {
            if (record && record.leader !== 0 && record.leader !== record.node) {
                pen.fillStyle = ofNode(record.leader);
                this.#bar(pen, record.node, record.t_s, to, LANE_PX / 2 - 1, 3);
            }
        };
        for (const index of this.trace.beliefs) {
            const record = this.trace.records[index];
            line(last.get(record.node), record.t_s);
            last.set(record.node, record);
        }
        last.forEach((record) => line(record, this.trace.nowS));
        for (const index of this.trace.beliefs) {
            const record = this.trace.records[index];
            const x = this.#x(record.t_s);
            if (x >= LEFT_PX && x <= this.width) {
                pen.fillStyle = record.leader === 0 ? look.quiet : ofNode(record.leader);
                diamond(pen, x, this.#y(record.node) + LANE_PX / 2, MARK_PX - 1, look.panel);
            }
        }
    }

    // A bar while it leads; the bar is hollow after the leader's own valid-until.
    #drawLeaderships(pen) {
        for (const lead of this.trace.leaderships) {
            const to = lead.to ?? this.trace.nowS;
            const until = lead.untils.at(-1)[1] ?? to;
            pen.fillStyle = ofNode(lead.node);
            this.#bar(pen, lead.node, lead.from, Math.min(to, until), 4, LANE_PX - 8);
            if (until > to) { // others had to wait until here
                pen.globalAlpha = 0.3;
                this.#bar(pen, lead.node, to, Math.min(until, this.trace.durationS), 8, LANE_PX - 16);
                pen.globalAlpha = 1;
            }
        }
    }

    #drawFaults(pen, look) {
        pen.textAlign = "left";
        let freeFrom = -1;
        for (const index of this.trace.faults) {
            const record = this.trace.records[index];
            const x = this.#x(record.t_s);
            if (x < LEFT_PX || x > this.width) {
                continue;
            }
            pen.fillStyle = look.bad;
            pen.globalAlpha = 0.6;
            pen.fillRect(x, TOP_PX - 4, 1, this.height - TOP_PX - 14);
            pen.globalAlpha = 1;
            const text = record.detail.replace(/^at \S+ /, "").slice(0, 28);
            if (x > freeFrom) {
                pen.fillText(text, x + 2, 8);
                freeFrom = x + pen.measureText(text).width + 10;
            }
        }
    }

    #drawScale(pen, look) {
        const length = this.to - this.from;
        const step = niceStep(length / Math.max(2, this.width / 110));
        pen.textAlign = "center";
        pen.fillStyle = look.quiet;
        for (let at = Math.ceil(this.from / step) * step; at <= this.to; at += step) {
            pen.fillText(step >= 0.01 ? `${+at.toFixed(3)} s` : `${+(at * 1e3).toFixed(3)} ms`, Math.min(this.#x(at), this.width - 24), this.height - 8);
        }
    }

    #drawPlayhead(pen, look) {
        const x = this.#x(this.playhead);
        if (x >= LEFT_PX - 1) {
            pen.fillStyle = look.ink;
            pen.fillRect(x - 1, TOP_PX - 6, 2, this.height - TOP_PX - 8);
            pen.beginPath();
            pen.moveTo(x - 6, TOP_PX - 10);
            pen.lineTo(x + 6, TOP_PX - 10);
            pen.lineTo(x, TOP_PX - 2);
            pen.fill();
        }
    }

    #markAt(x, y) {
        return this.trace.beliefs.findLast((index) => {
            const record = this.trace.records[index];
            return Math.abs(this.#x(record.t_s) - x) <= MARK_PX && Math.abs(this.#y(record.node) + LANE_PX / 2 - y) <= LANE_PX / 2;
        });
    }

    #press(event) {
        if (!this.trace) {
            return;
        }
        this.canvas.setPointerCapture(event.pointerId);
        const mark = this.#markAt(event.offsetX, event.offsetY);
        if (mark !== undefined) {
            this.on.why(mark);
            return;
        }
        this.isSeeking = true;
        this.on.seek(this.#timeAt(event.offsetX));
    }

    #wheel(event) {
        if (event.ctrlKey || event.shiftKey) {
            event.preventDefault();
            this.zoom((event.deltaY || event.deltaX) < 0 ? 1.25 : 0.8, this.#timeAt(event.offsetX));
        }
    }
}

function diamond(pen, x, y, r, border) {
    pen.beginPath();
    pen.moveTo(x, y - r);
    pen.lineTo(x + r, y);
    pen.lineTo(x, y + r);
    pen.lineTo(x - r, y);
    pen.closePath();
    pen.fill();
    pen.strokeStyle = border;
    pen.stroke();
}

function niceStep(about) {
    const power = 10 ** Math.floor(Math.log10(about));
    return [1, 2, 5, 10].map((one) => one * power).find((step) => step >= about);
}
