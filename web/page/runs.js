// Sends requests for runs to the worker, and passes its answers to the caller.
const worker = new Worker(new URL("./worker.js", import.meta.url), { type: "module" });
// Compiled while the worker is still loading.
WebAssembly.compileStreaming(fetch(new URL("./conclave.wasm", import.meta.url))).then(
    (module) => worker.postMessage({ module }),
    (error) => worker.onerror({ message: `the simulator could not be loaded: ${error.message}` }));
const waiting = new Map(); // request -> function to call
let last = 0;

worker.onmessage = ({ data }) => waiting.get(data.id)?.(data);
worker.onerror = (event) => waiting.forEach((tell, id) => tell({ id, error: { message: event.message || "the simulator could not be loaded", line: 0, column: 0 } }));

function ask(request, tell) {
    const id = ++last;
    waiting.set(id, tell);
    worker.postMessage({ ...request, id });
    return id;
}

function once(request, part) {
    return new Promise((resolve, reject) => {
        const id = ask(request, (data) => {
            waiting.delete(id);
            data.error ? reject(new Error(data.error.message)) : resolve(data[part]);
        });
    });
}

// Runs a scenario; `tell` is called with each message of worker.js. Returns a function that stops it.
export function run(request, tell) {
    const id = ask(request, (data) => {
        tell(data);
        if (data.error || data.report) {
            waiting.delete(id);
        }
    });
    return () => {
        if (waiting.delete(id)) {
            worker.postMessage({ id, stop: true });
        }
    };
}

export const words = () => once({ words: true }, "words");
export const look = (text, seed, node, atS) => once({ text, seed, look: { node, atS } }, "inside");
