#!/usr/bin/env node
// bench/bench_web.mjs CONCLAVE DIST [--tiny] - the playground: speed, size, and how soon it runs.
//
//   engine  events per second of the WebAssembly module and of the program, same scenario, same result
//   bundle  bytes of all files, compressed by gzip -9
//   frames  frames per second while nine nodes have some 500 messages in flight, and the longest gap
//   start   from the first paint to the first frame of a run, in Chromium; left out without a browser
// Speed is measured in processor time, so that other work on the machine does not matter. Frames and start are
// measured by the clock, and mean something only on an idle machine: the load is printed with them.
// Tiny: the same in miniature, to check that it still works; its figures mean nothing.
import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { loadavg, tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { Engine } from "../web/page/engine.js";

const [conclave, dist] = process.argv.slice(2);
const isTiny = process.argv.includes("--tiny");
const REPEATS = isTiny ? 1 : 5;
const FAULTY = "link * delay 1ms jitter 10% loss 0.1%\nrandom faults rate 1/s kinds crash,pause,partition,link,loss,duplicate,reorder\n";

const median = (values) => values.toSorted((a, b) => a - b)[values.length >> 1];

// Processor time, of the program and of this process: both may share the machine with others.
function nativeRate(path) {
    const timed = ["-c", 'TIMEFORMAT="%U %S"; time "$@"', "bash", conclave, "sim", path, "--json"];
    const done = spawnSync("bash", timed, { maxBuffer: 1 << 28, encoding: "utf8" });
    const [user, system] = done.stderr.trim().split("\n").at(-1).split(" ").map(Number);
    return JSON.parse(done.stdout).events / Math.max(1e-3, user + system);
}

function webRate(engine, text, runNs) {
    const begin = process.cpuUsage();
    const run = engine.open(text, undefined, /* hasTrace= */ false);
    engine.runTo(run, runNs);
    const report = engine.report(run);
    const { user, system } = process.cpuUsage(begin);
    engine.close(run);
    return JSON.parse(report).events / ((user + system) / 1e6);
}

async function benchEngine(scratch) {
    const engine = await Engine.load(readFileSync(join(dist, "conclave.wasm")));
    for (const protocol of ["bully", "ring", "pole", "local"]) {
        const runS = isTiny ? 5 : 500;
        const text = `protocol ${protocol}\nnodes 5\n${FAULTY}run ${runS}s\nexpect messages * >= 0\n`;
        const path = join(scratch, "bench.scn");
        writeFileSync(path, text);
        const native = median(Array.from({ length: REPEATS }, () => nativeRate(path)));
        webRate(engine, text, runS * 1e9); // to warm up: the browser's compiler works during the first run
        const web = median(Array.from({ length: REPEATS }, () => webRate(engine, text, runS * 1e9)));
        console.log(`engine protocol=${protocol} n=5 native_events_per_s=${Math.round(native)} wasm_events_per_s=${Math.round(web)} share=${(web / native).toFixed(2)} asked=0.33`);
    }
}

function benchBundle() {
    const bytes = readdirSync(dist).map((name) => gzipSync(readFileSync(join(dist, name)), { level: 9 }).length);
    console.log(`bundle files=${bytes.length} gzip_bytes=${bytes.reduce((sum, one) => sum + one, 0)} asked=300000`);
}

async function benchStart() {
    const executablePath = ["/usr/bin/chromium", "/usr/bin/chromium-browser"].find((path) => existsSync(path));
    const { chromium } = await import("../tests/web/node_modules/playwright-core/index.mjs").catch(() => ({}));
    if (!executablePath || !chromium) {
        console.log("# start: left out, there is no browser");
        return;
    }
    const server = spawn(conclave, ["play"], { stdio: ["ignore", "pipe", "ignore"], env: { ...process.env, CONCLAVE_WEB: dist } });
    const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
    try {
        const address = await new Promise((resolve) => server.stdout.once("data", (data) => resolve(String(data).trim())));
        const times = [];
        for (let i = 0; i < REPEATS; i++) {
            const page = await (await browser.newContext()).newPage();
            await page.goto(address);
            await page.locator(".node.leads").first().waitFor();
            times.push(await page.evaluate(() => performance.now() - performance.getEntriesByName("first-paint")[0].startTime));
            await page.context().close();
        }
        await benchFrames(await (await browser.newContext()).newPage(), address);
        console.log(`start runs=${REPEATS} first_paint_to_running_ms=${Math.round(median(times))} max_ms=${Math.round(Math.max(...times))} asked=1000 load=${loadavg()[0].toFixed(1)}`);
    } finally {
        await browser.close();
        server.kill("SIGINT");
    }
}

async function benchFrames(page, address) {
    await page.goto(address);
    await page.locator("#show-editor").click();
    await page.locator("textarea").fill("protocol bully heartbeat=5ms timeout=2s delta=400ms\nnodes 9\nlink * delay 320ms\nrun 20s\n");
    await page.locator("h2", { hasText: "9 nodes" }).waitFor();
    await page.locator("#speed").selectOption("0.2");
    await page.locator("#scrub").evaluate((input) => {
        input.value = 5000;
        input.dispatchEvent(new Event("input"));
    });
    await page.locator("#play").click();
    const session = await page.context().browser().newBrowserCDPSession();
    const rendererS = async () => (await session.send("SystemInfo.getProcessInfo")).processInfo
        .filter((one) => one.type === "renderer").reduce((sum, one) => sum + one.cpuTime, 0);
    const beforeS = await rendererS();
    const { frames, longest } = await page.evaluate(() => new Promise((resolve) => {
        const begin = performance.now();
        let [last, frames, longest] = [begin, 0, 0];
        const count = (now) => {
            frames++;
            longest = Math.max(longest, now - last);
            last = now;
            now - begin < 3000 ? requestAnimationFrame(count) : resolve({ frames, longest });
        };
        requestAnimationFrame(count);
    }));
    const each = (await rendererS() - beforeS) * 1e3 / frames;
    console.log(`frames nodes=9 messages=500 cpu_ms_per_frame=${each.toFixed(1)} per_s=${Math.round(frames / 3)} longest_ms=${Math.round(longest)} asked=60 load=${loadavg()[0].toFixed(1)}`);
}

const scratch = mkdtempSync(join(tmpdir(), "conclave-bench-"));
console.log(`# bench=web clock=monotonic seed=1${isTiny ? " tiny" : ""}`);
try {
    await benchEngine(scratch);
    benchBundle();
    if (!isTiny) {
        await benchStart();
    }
} finally {
    rmSync(scratch, { recursive: true });
}
