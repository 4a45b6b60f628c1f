// tests/web/test_engine.mjs WASM PLANTED FOLDER - the simulator's functions that the page calls.
//
// PLANTED is a module whose bully core fails an assertion; the scenarios in FOLDER are damaged at
// random.
import assert from "node:assert";
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { Engine, ScenarioError } from "../../web/page/engine.js";
import { ACTIONS, STATEMENTS, complete, highlight } from "../../web/page/language.js";
import { Moment } from "../../web/page/moment.js";
import { Trace } from "../../web/page/trace.js";
import { run as runPoints } from "./tap.mjs";

const [wasm, planted, folder] = process.argv.slice(2);
const engine = await Engine.load(readFileSync(wasm));
const TEXT = "protocol bully\nnodes 3\nrun 2s\n";
const S = 1e9;

function records(run) {
    return engine.trace(run, 0).trimEnd().split("\n").map((line) => JSON.parse(line));
}

// The same numbers each time, so that a failure can be repeated.
function* chance(seed) {
    for (let state = seed;;) {
        state = (state * 1103515245 + 12345) % 2147483648;
        yield state / 2147483648;
    }
}

function spoil(text, random) {
    const next = () => random.next().value;
    const words = text.split(/(\s+)/);
    for (let i = 0; i < 3; i++) {
        const at = Math.floor(next() * words.length);
        const other = words[Math.floor(next() * words.length)];
        words[at] = [other, "", "999999999999", "-1s", "\u0000", "é", words[at].slice(1), "leader"][Math.floor(next() * 8)];
    }
    return words.join("");
}

const points = [
    ["a mistake is told with its line and column", () => {
        assert.throws(() => engine.open("protocol bully\nnodes 3\nat 1s crush 3\nrun 2s\n"), (error) =>
            error instanceof ScenarioError && error.line === 3 && error.column === 7 && /did you mean 'crash'/.test(error.message));
    }],
    ["a run is stepped to an instant, and goes no further", () => {
        const run = engine.open(TEXT);
        engine.runTo(run, 0.5 * S);
        assert.ok(records(run).slice(1).every((record) => record.t_s <= 0.5));
        assert.strictEqual(engine.node(run, 3).t_s, 0.5);
        assert.strictEqual(engine.node(run, 1).leader, 3);
        assert.strictEqual(engine.node(run, 3).leads, true);
        engine.close(run);
    }],
    ["what an injected action changes comes after it", () => {
        const run = engine.open(TEXT);
        engine.runTo(run, 2 * S);
        const branch = engine.inject(run, 1 * S, "crash 3");
        engine.runTo(branch, 2 * S);
        const before = (r) => records(r).slice(1).filter((record) => record.t_s < 1);
        assert.deepStrictEqual(before(branch), before(run));
        assert.strictEqual(engine.node(branch, 1).leader, 2);
        assert.strictEqual(engine.node(run, 1).leader, 3);
        assert.strictEqual(engine.text(branch), `${TEXT}at 1s crash 3\n`);
        const again = engine.open(engine.text(branch));
        engine.runTo(again, 2 * S);
        assert.strictEqual(engine.trace(again, 0), engine.trace(branch, 0));
        [run, branch, again].forEach((one) => engine.close(one));
    }],
    ["an action that makes no sense is refused and changes nothing", () => {
        const run = engine.open(TEXT);
        assert.throws(() => engine.inject(run, 1 * S, "crash 4"), /not within the nodes 1..3/);
        assert.throws(() => engine.inject(run, 3 * S, "crash 3"), /within the run/);
        assert.throws(() => engine.inject(run, 1 * S, "crash 3\nat 2s crash 2"), /one line/);
        assert.strictEqual(engine.text(run), TEXT);
        engine.close(run);
    }],
    ["two runs do not disturb each other", () => {
        const [one, other] = [engine.open(TEXT), engine.open(TEXT, 7)];
        for (let slice = 1; slice <= 10; slice++) {
            engine.runTo(one, slice * 0.2 * S);
            engine.runTo(other, slice * 0.2 * S);
        }
        const alone = engine.open(TEXT, 7);
        engine.runTo(alone, 2 * S);
        assert.strictEqual(engine.trace(other, 0), engine.trace(alone, 0));
        [one, other, alone].forEach((run) => engine.close(run));
    }],
    ["memory is given back", () => {
        const once = () => {
            const run = engine.open(TEXT);
            engine.runTo(run, 2 * S);
            engine.close(run);
        };
        once();
        const pages = engine.memoryBytes();
        for (let i = 0; i < 300; i++) {
            once();
        }
        assert.strictEqual(engine.memoryBytes(), pages);
    }],
    ["a failed assertion is reported, and the next run works", async () => {
        const broken = await Engine.load(readFileSync(planted));
        const run = broken.open("protocol bully\nnodes 5\nlink * delay 1ms jitter 50% reorder 20%\n" +
            "random faults rate 3/s kinds crash,pause,loss,slow lasting 20ms..500ms\nrun 60s\n");
        broken.runTo(run, 60 * S);
        const report = JSON.parse(broken.report(run));
        assert.strictEqual(report.properties.assertions.ok, false);
        assert.match(report.properties.assertions.detail, /\(\w+\.c:\d+\)$/);
        broken.close(run);
        const other = broken.open("protocol ring\nnodes 3\nrun 1s\n");
        broken.runTo(other, 1 * S);
        assert.strictEqual(JSON.parse(broken.report(other)).ok, true);
    }],
    ["spoiled scenarios are refused or run, and break nothing", async () => {
        const random = chance(16);
        const files = readdirSync(folder, { recursive: true }).filter((name) => name.endsWith(".scn")).sort();
        for (const name of files) {
            const text = readFileSync(join(folder, name), "utf8");
            for (let i = 0; i < 3; i++) {
                const bad = spoil(text, random).replace(/^nodes \d{3,}.*$/m, "nodes 9");
                try {
                    const run = engine.open(bad);
                    engine.runTo(run, 1e7);
                    engine.close(run);
                } catch (error) {
                    assert.ok(error instanceof ScenarioError && error.line > 0, `${error.message} in:\n${bad}`);
                }
            }
        }
    }],
    ["what ends the simulator is told, and the next run gets a new one", async () => {
        const fresh = await Engine.load(readFileSync(wasm));
        const run = fresh.open(TEXT);
        const nowhere = { ...run, pointer: 0xfffffff0 }; // a wrong pointer: the module traps
        assert.throws(() => fresh.runTo(nowhere, 1 * S), /memory access out of bounds/);
        await fresh.restarted;
        assert.throws(() => fresh.runTo(run, 1 * S), /this run is gone/);
        fresh.close(run);
        const next = fresh.open(TEXT);
        fresh.runTo(next, 2 * S);
        assert.strictEqual(JSON.parse(fresh.report(next)).ok, true);
    }],
    ["a partition's own end leaves links cut, a heal does not", () => {
        const run = engine.open("protocol bully\nnodes 3\nat 1s link 1>2 down\nat 2s partition 1 2 | 3 for 2s\nat 6s heal\nrun 8s\n");
        engine.runTo(run, 8 * S);
        const trace = new Trace();
        trace.add(engine.trace(run, 0));
        engine.close(run);
        const cutAt = (atS) => [[1, 2], [2, 1], [1, 3]].map(([a, b]) => new Moment(trace).seek(atS).isCut(a, b));
        assert.deepStrictEqual(cutAt(3), [true, false, true]);
        assert.deepStrictEqual(cutAt(5), [true, false, false]);
        assert.deepStrictEqual(cutAt(7), [false, false, false]);
    }],
    ["the editor gets its words", () => {
        const words = engine.words();
        assert.ok(words.protocols.some((one) => one.name === "pole" && one.options.some((o) => o.name === "oracle")));
        assert.ok(words.properties.includes("at-most-one-leader"));
    }],
    ["the editor knows every word of the scenarios", () => {
        for (const name of readdirSync(folder, { recursive: true }).filter((one) => one.endsWith(".scn"))) {
            for (const line of readFileSync(join(folder, name), "utf8").split("\n")) {
                const [first, , action] = line.replace(/#.*/, "").trim().split(/\s+/);
                assert.ok(first === "" || STATEMENTS.includes(first), `${name}: ${line}`);
                assert.ok(first !== "at" || ACTIONS.includes(action), `${name}: ${line}`);
                assert.strictEqual(highlight(line).replace(/<[^>]*>/g, "").replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&amp;", "&"), line);
            }
        }
        const known = engine.words();
        assert.deepStrictEqual(complete("protocol po", known).candidates, ["pole"]);
        assert.deepStrictEqual(complete("at 1s cr", known).candidates, ["crash"]);
        assert.ok(complete("protocol pole oracle", known).candidates[0].startsWith("oracle="));
        assert.ok(complete("expect property at-", known).candidates.includes("at-most-one-leader"));
    }],
];
process.exit(await runPoints(points));
