// One run on the screen: its stage and timeline, from the simulator or from an opened trace.
import { Moment } from "./moment.js";
import { run } from "./runs.js";
import { Stage } from "./stage.js";
import { Timeline } from "./timeline.js";
import { Trace } from "./trace.js";

export class View {
    // `on`: node, link, partition as of the stage; seek, why as of the timeline; change(view) when
    // more of the run is known; error(error, view).
    constructor(element, on) {
        this.element = element;
        this.on = on;
        this.stage = new Stage(element.querySelector(".stage"), {
            node: (id, button) => on.node(this, id, button),
            link: (a, b, x, y) => on.link(this, a, b, x, y),
            partition: (parts) => on.partition(this, parts),
        });
        this.timeline = new Timeline(element.querySelector(".timeline canvas"), {
            seek: on.seek,
            why: (index) => on.why(this, index),
        });
        this.trace = new Trace();
        this.raw = ""; // the trace as text, for export
        this.samples = []; // what is known of the properties, and since when
    }

    #begin(trace) {
        this.trace = trace;
        this.raw = "";
        this.samples = [];
        this.report = null;
    }

    // Busy: more of the run will come.
    #setBusy(isBusy) {
        this.element.setAttribute("aria-busy", String(isBusy));
    }

    // Runs a scenario. The present run is shown until the first piece of the new one is there.
    start({ text, seed, inject }) {
        const trace = new Trace();
        this.stop?.();
        this.#setBusy(true);
        this.stop = run({ text, seed, inject }, (data) => {
            if (data.error) {
                this.#setBusy(false);
                this.on.error(data.error, this);
            } else if (data.text !== undefined) {
                this.#begin(trace);
                this.text = data.text;
                this.seed = seed;
                this.isLive = true;
                this.on.accepted?.(this);
            } else if (data.report) {
                this.report = data.report;
                trace.isComplete = true;
                this.#setBusy(false);
                this.on.change(this);
            } else {
                this.#grow(data);
            }
        });
    }

    #grow({ chunk, nowS, properties }) {
        const isFirst = this.trace.header === null;
        this.trace.add(chunk);
        this.raw += chunk;
        this.trace.nowS = Math.max(this.trace.nowS, nowS);
        this.samples.push({ nowS, properties });
        if (isFirst) {
            this.#show();
        }
        this.timeline.draw();
        this.on.change(this);
    }

    #show() {
        this.moment = new Moment(this.trace);
        this.stage.show(this.moment);
        this.timeline.show(this.trace);
        this.element.querySelector("h2").textContent = `${this.trace.header.protocol}, ${this.trace.nodeCount} nodes, seed ${this.trace.header.seed}`;
    }

    // A trace that was recorded elsewhere: it cannot be changed.
    open(text) {
        const trace = new Trace();
        trace.add(text.endsWith("\n") ? text : `${text}\n`);
        if (trace.header === null) {
            throw new Error("the trace is empty");
        }
        this.#begin(trace);
        this.raw = text;
        this.isLive = false;
        trace.header.duration_s ||= trace.nowS;
        trace.nowS = Math.max(trace.nowS, trace.durationS);
        trace.isComplete = true;
        this.#setBusy(false);
        this.#show();
        this.on.change(this);
    }

    draw(atS, speed) {
        if (this.trace.nowS >= atS || this.trace.isComplete) { // otherwise the previous frame stays
            this.stage.draw(Math.min(atS, this.trace.nowS), speed);
        }
        this.timeline.moveTo(atS);
    }

    // How often each property had been judged by then; null: unknown.
    propertiesAt(atS) {
        let found = this.samples[0] ?? null;
        for (const sample of this.samples) {
            if (sample.nowS <= atS) {
                found = sample;
            }
        }
        return found?.properties ?? null;
    }
}
