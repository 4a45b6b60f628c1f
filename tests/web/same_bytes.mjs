// tests/web/same_bytes.mjs CONCLAVE WASM FOLDER... - the page's simulator and the program agree.
//
// One TAP point per *.scn file: the report of the WebAssembly module, which is stepped in slices as
// on the page, has the same bytes as that of `conclave sim --json`. For some scenarios, with
// CV_TEST_SCALE=600 for all, the trace has the same bytes, too.
import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync, readdirSync, rmSync, statSync } from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import { join } from "node:path";
import { Engine } from "../../web/page/engine.js";

const [conclave, wasm, ...folders] = process.argv.slice(2);
const SLICES = 7;
const TRACE_BYTES_MAX = 1 << 28; // that the page takes
const TRACED_EVERY = Math.max(1, Math.round(600 / Number(process.env.CV_TEST_SCALE ?? 100)));

function scenarios(folder) {
    return readdirSync(folder, { recursive: true }).filter((name) => name.endsWith(".scn")).sort()
        .map((name) => join(folder, name));
}

// Both name the scenario in their first line; on the page it has no file.
const renamed = (text, path) => text.replace(`"scenario": "${path}"`, '"scenario": "scenario"');

function native(path, trace) {
    const args = ["sim", path, "--json"].concat(trace ? ["--trace", trace] : []);
    return new Promise((resolve) => {
        execFile(conclave, args, { maxBuffer: 1 << 28 }, (_failed, stdout) => {
            const isTraced = trace !== null && statSync(trace).size < TRACE_BYTES_MAX;
            resolve({ report: renamed(stdout, path), trace: isTraced ? renamed(readFileSync(trace, "utf8"), path) : "" });
        });
    });
}

function inWeb(engine, path, hasTrace, endNs) {
    const run = engine.open(readFileSync(path, "utf8"), undefined, hasTrace);
    for (let slice = 1; slice <= SLICES; slice++) {
        engine.runTo(run, slice === SLICES ? endNs : Math.floor(endNs * slice / SLICES));
    }
    const told = { report: engine.report(run), trace: engine.trace(run, 0) };
    engine.close(run);
    return told;
}

function difference(one, other) {
    let at = 0;
    while (one[at] === other[at]) {
        at++;
    }
    return `# from byte ${at} on:\n#  program: ${one.slice(at - 60, at + 80)}\n#  page:    ${other.slice(at - 60, at + 80)}`;
}

const engine = await Engine.load(readFileSync(wasm));
const files = folders.flatMap(scenarios);
const scratch = mkdtempSync(join(tmpdir(), "conclave-web-"));
const queue = files.entries();
const results = []; // one for each file, since TAP wants the points in order
async function work() {
    for (const [index, path] of queue) {
        const expected = await native(path, index % TRACED_EVERY === 0 ? join(scratch, String(index)) : null);
        const told = inWeb(engine, path, expected.trace !== "", JSON.parse(expected.report).duration_s * 1e9);
        const wrong = ["report", "trace"].filter((part) => expected[part] !== told[part]);
        results[index] = { path, wrong: wrong.map((part) => `# ${part} differs\n${difference(expected[part], told[part])}`) };
    }
}
console.log(`1..${Math.max(1, files.length)}`);
await Promise.all(Array.from({ length: availableParallelism() }, work));
rmSync(scratch, { recursive: true });
results.forEach(({ path, wrong }, index) => {
    console.log(`${wrong.length === 0 ? "ok" : "not ok"} ${index + 1} - ${path}`);
    wrong.forEach((text) => console.log(text));
});
process.exit(results.length > 0 && results.every(({ wrong }) => wrong.length === 0) ? 0 : 1);
