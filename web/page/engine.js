// The simulator as a module of WebAssembly: loads it and wraps its calls as plain functions.
//
// The module needs few functions of its environment. Its output is an error text and is kept. What
// would end a process (no memory left, a trap) is an exception here, and the instance is thrown
// away: the next call gets a new one. A failed assertion is not a trap: web/engine/catch.c.

class Unwind extends Error {} // a failed assertion on its way to the handler

const EBADF = 8;

function surroundings(state) {
    const words = new TextDecoder();
    const memory = () => new DataView(state.instance.exports.memory.buffer);
    return {
        page: {
            try(work, context) {
                const { __stack_pointer: stack, web_call } = state.instance.exports;
                const before = stack.value;
                try {
                    web_call(work, context);
                    return 1;
                } catch (error) {
                    if (!(error instanceof Unwind)) {
                        throw error;
                    }
                    stack.value = before;
                    return 0;
                }
            },
            throw() {
                throw new Unwind();
            },
        },
        wasi_snapshot_preview1: {
            fd_write(_fd, vectors, count, retWritten) {
                let written = 0;
                for (let i = 0; i < count; i++) {
                    const at = memory().getUint32(vectors + 8 * i, true);
                    const length = memory().getUint32(vectors + 8 * i + 4, true);
                    state.printed += words.decode(new Uint8Array(memory().buffer, at, length));
                    written += length;
                }
                memory().setUint32(retWritten, written, true);
                return 0;
            },
            fd_close: () => EBADF,
            fd_seek: () => EBADF,
            fd_fdstat_get: () => EBADF,
            proc_exit(status) {
                throw new Error(state.printed.trim() || `the simulator ended with ${status}`);
            },
        },
    };
}

// What is wrong in a scenario, and where: lines and columns count from 1.
export class ScenarioError extends Error {
    constructor(text) {
        const place = /^scenario:(\d+):(\d+): (.*)$/s.exec(text);
        super(place ? place[3] : text);
        this.line = place ? Number(place[1]) : 0;
        this.column = place ? Number(place[2]) : 0;
    }
}

export class Engine {
    #module;
    #state;

    // Made from the bytes of the module, or from a compiled module.
    static async load(source) {
        const engine = new Engine();
        engine.#module = source instanceof WebAssembly.Module ? source : await WebAssembly.compile(source);
        await engine.#start();
        return engine;
    }

    async #start() {
        const state = { printed: "" };
        state.instance = await WebAssembly.instantiate(this.#module, surroundings(state));
        state.instance.exports._initialize();
        this.#state = state;
    }

    // Calls an export. After a trap the instance cannot be used any more.
    #call(name, ...args) {
        if (!this.#state) {
            throw new Error("the simulator is being started again");
        }
        try {
            return this.#state.instance.exports[name](...args);
        } catch (error) {
            const said = this.#state.printed.trim();
            this.#state = null;
            this.restarted = this.#start();
            throw new Error(said || String(error.message));
        }
    }

    #text(pointer) {
        if (pointer === 0) {
            throw this.#error();
        }
        const length = this.#call("web_length");
        const bytes = new Uint8Array(this.#state.instance.exports.memory.buffer, pointer, length);
        return new TextDecoder().decode(bytes);
    }

    #error() {
        return new ScenarioError(this.#text(this.#call("web_error")));
    }

    #input(text) {
        const bytes = new TextEncoder().encode(text);
        const at = this.#call("web_input", bytes.length);
        new Uint8Array(this.#state.instance.exports.memory.buffer).set(bytes, at);
        return bytes.length;
    }

    // A run is known by its address in its instance; without that instance the run is gone.
    #made(pointer) {
        if (pointer === 0) {
            throw this.#error();
        }
        return { pointer, state: this.#state };
    }

    #pointer(run) {
        if (run.state !== this.#state) {
            throw new Error("the simulator had to be started again: this run is gone");
        }
        return run.pointer;
    }

    // A run of a scenario; `seed` undefined: the scenario's own. Throws ScenarioError.
    open(text, seed, hasTrace = true) {
        const length = this.#input(text);
        return this.#made(this.#call("web_run_new", length, seed === undefined ? 0 : 1, seed ?? 0, hasTrace ? 1 : 0));
    }

    // Another run: the same with one more action.
    inject(run, atNs, action) {
        const length = this.#input(action);
        return this.#made(this.#call("web_run_inject", this.#pointer(run), atNs, length));
    }

    runTo(run, untilNs) {
        if (this.#call("web_run_to", this.#pointer(run), untilNs) === 0) {
            throw this.#error();
        }
    }

    // The trace from that byte on.
    trace(run, from) {
        return this.#text(this.#call("web_run_trace", this.#pointer(run), from));
    }

    memoryBytes() {
        return this.#state.instance.exports.memory.buffer.byteLength;
    }

    text(run) {
        return this.#text(this.#call("web_run_text", this.#pointer(run)));
    }

    report(run) {
        return this.#text(this.#call("web_run_report", this.#pointer(run)));
    }

    properties(run) {
        return JSON.parse(this.#text(this.#call("web_run_properties", this.#pointer(run))));
    }

    node(run, id) {
        return JSON.parse(this.#text(this.#call("web_run_node", this.#pointer(run), id)));
    }

    words() {
        return JSON.parse(this.#text(this.#call("web_words")));
    }

    close(run) {
        if (run.state === this.#state) {
            this.#call("web_run_free", run.pointer);
        }
    }
}
