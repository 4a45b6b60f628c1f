// Runs scenarios outside the page's thread, so that a long one never stops the drawing.
//
// A request { id, text, seed, inject } is answered by { id, text } once the scenario was accepted,
// then by pieces of the trace { id, chunk, nowS, properties }, and at the end by { id, report }; by
// { id, error } if something is wrong. { id, stop } ends a run. { id, look } asks for the state of
// a node at an instant.
import { Engine, ScenarioError } from "./engine.js";

const SLICES = 60; // of a run: after each one the page gets the new events

let load; // called with the module, which the page compiles
const ready = new Promise((resolve) => load = resolve).then((module) => Engine.load(module));
const stopped = new Set();

const pause = () => new Promise((resolve) => setTimeout(resolve, 0));

function open(engine, { text, seed, inject }) {
    const run = engine.open(text, seed);
    if (!inject) {
        return run;
    }
    try {
        return engine.inject(run, inject.atS * 1e9, inject.action);
    } finally {
        engine.close(run);
    }
}

async function play(engine, request) {
    const run = open(engine, request);
    try {
        await playRun(engine, run, request.id);
    } finally {
        engine.close(run);
    }
}

async function playRun(engine, run, id) {
    let from = 0;
    const send = (nowS) => {
        const chunk = engine.trace(run, from);
        from += new TextEncoder().encode(chunk).length;
        postMessage({ id, chunk, nowS, properties: engine.properties(run) });
        return chunk;
    };
    postMessage({ id, text: engine.text(run) });
    const header = JSON.parse(send(0).split("\n", 1)[0]);
    for (let slice = 1; slice <= SLICES && !stopped.has(id); slice++) {
        const nowS = header.duration_s * slice / SLICES;
        engine.runTo(run, Math.round(nowS * 1e9));
        send(nowS);
        await pause(); // another request may have come
    }
    if (!stopped.delete(id)) {
        postMessage({ id, report: JSON.parse(engine.report(run)) });
    }
}

function look(engine, { id, text, seed, look: { node, atS } }) {
    const run = engine.open(text, seed, false);
    engine.runTo(run, Math.round(atS * 1e9));
    postMessage({ id, inside: engine.node(run, node) });
    engine.close(run);
}

onmessage = async ({ data: request }) => {
    const { id } = request;
    if (request.module) {
        load(request.module);
        return;
    }
    try {
        const engine = await ready;
        await engine.restarted;
        if (request.stop) {
            stopped.add(id);
        } else if (request.words) {
            postMessage({ id, words: engine.words() });
        } else if (request.look) {
            look(engine, request);
        } else {
            await play(engine, request);
        }
    } catch (error) {
        const { line, column } = error instanceof ScenarioError ? error : { line: 0, column: 0 };
        postMessage({ id, error: { message: error.message, line, column } });
    }
};
