// tests/web/test_page.mjs CONCLAVE - the playground in a real browser, served by `conclave play`.
//
// Skipped with a notice where there is no browser. The tests look only at what a viewer can see or
// a screen reader would read out.
import assert from "node:assert";
import { execFileSync, spawn } from "node:child_process";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { run as runPoints } from "./tap.mjs";

const [conclave] = process.argv.slice(2);
const browsers = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];
const executablePath = browsers.find((path) => existsSync(path));
const { chromium } = await import("playwright-core").catch(() => ({}));
if (!executablePath || !chromium) {
    console.log("1..0 # SKIP no browser, or nothing to drive one with: tools/setup browser");
    process.exit(0);
}

const scratch = mkdtempSync(join(tmpdir(), "conclave-page-"));
const ended = [];
let browser;

// Ends with the test in every case.
async function serve(...args) {
    const server = spawn(conclave, ["play", ...args], { stdio: ["ignore", "pipe", "ignore"] });
    ended.push(server);
    const line = await new Promise((resolve, reject) => {
        server.stdout.once("data", (data) => resolve(String(data)));
        server.once("exit", (status) => reject(new Error(`conclave play ended with ${status}`)));
    });
    return line.trim();
}

// A page on which every error, and every request to another host, fails the point.
// `holdEngine` gets the request for the simulator and lets it go on when it likes.
async function open(address, options = {}, holdEngine = null) {
    const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, ...options });
    context.setDefaultTimeout(60000); // for a busy machine; usually it takes milliseconds
    const page = await context.newPage();
    page.wrong = [];
    page.on("console", (message) => ["error", "warning"].includes(message.type()) && page.wrong.push(message.text()));
    page.on("pageerror", (error) => page.wrong.push(error.message));
    page.on("request", (request) => /^(blob|data):/.test(request.url()) || new URL(request.url()).origin === new URL(address).origin || page.wrong.push(request.url()));
    if (holdEngine) {
        await page.route("**/conclave.wasm", holdEngine);
    }
    await page.goto(address);
    return page;
}

async function end(page) {
    assert.deepStrictEqual(page.wrong, []);
    await page.context().close();
}

const node = (page, id, view = 0) => page.locator(`[data-view="${view}"] [data-node="${id}"]`);
const says = (page, id, text, view = 0) => page.locator(`[data-view="${view}"] [data-node="${id}"][aria-label*="${text}"]`).waitFor({ timeout: 60000 });

// How many nodes are shown as leading.
async function leaders(page) {
    const labels = await page.locator('[data-view="0"] .node').evaluateAll((list) => list.map((one) => one.getAttribute("aria-label")));
    return labels.filter((label) => label.includes("leads")).length;
}

async function scrubTo(page, share) {
    await complete(page);
    await page.locator("#scrub").evaluate((input, value) => {
        input.value = value;
        input.dispatchEvent(new Event("input"));
    }, Math.round(10000 * share));
}

// Waits until the whole run is loaded.
const complete = (page) => page.locator('[data-view="0"][aria-busy="false"]').waitFor({ timeout: 60000 });

async function story(page, name) {
    await page.locator(`[data-story="${name}"]`).click();
    await complete(page);
}

// Waits until the editor has its first story. Asks again from here: the page forbids eval(), which waitForFunction()
// uses if it has to ask twice.
async function firstStory(page) {
    const deadline = Date.now() + 60000;
    while (await page.locator("textarea").inputValue() === "") {
        assert.ok(Date.now() < deadline, "the editor stays empty");
    }
}

async function type(page, text) {
    await page.locator("#show-editor").click();
    await firstStory(page);
    await page.locator("textarea").fill(text);
}

async function runs(page, text) {
    await type(page, text);
    await page.locator("textarea").blur(); // now it runs, without waiting for another key
    await complete(page);
}

// A picture that is one colour shows nothing.
async function isBlank(page, selector) {
    return page.locator(selector).first().evaluate((canvas) => {
        const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
        return !data.some((value) => value !== data[0]);
    });
}

async function dragAcross(page) {
    const box = await page.locator('[data-view="0"] .stage').boundingBox();
    const [left, right] = [await node(page, 4).boundingBox(), await node(page, 3).boundingBox()];
    const x = (left.x + right.x + right.width) / 2;
    await page.mouse.move(x - 6, box.y + box.height - 4);
    await page.mouse.down();
    await page.mouse.move(x - 20, box.y + box.height / 2, { steps: 3 });
    await page.mouse.move(box.x + box.width / 2 - 30, box.y + 6, { steps: 3 });
    await page.mouse.up();
}

const QUIET = (protocol) => `protocol ${protocol}\nnodes 5\nrun 4s\n`;

let address;
const points = [
    ["the gallery opens, plays and draws", async () => {
        const page = await open(address);
        await says(page, 5, "leads");
        assert.strictEqual(await page.locator("#gallery button").count() >= 14, true);
        assert.strictEqual(await page.locator("#play").getAttribute("aria-label"), "pause");
        assert.strictEqual(await isBlank(page, ".stage canvas"), false);
        assert.strictEqual(await isBlank(page, ".timeline canvas"), false);
        await end(page);
    }],
    ["the leader is crashed by a click, another one leads, and a click tells why", async () => {
        const page = await open(address);
        await runs(page, QUIET("bully"));
        await says(page, 5, "leads");
        await scrubTo(page, 0.3);
        await node(page, 5).click();
        await page.getByRole("menuitem", { name: "Crash" }).click();
        await page.locator("#speed").selectOption("5");
        await says(page, 4, "leads");
        await says(page, 5, "down");
        assert.match(await page.locator("textarea").inputValue(), /^at [\d.]+m?s crash 5$/m);
        await node(page, 4).click();
        await page.getByRole("menuitem", { name: "Why" }).click();
        const why = await page.locator("#why").innerText();
        assert.match(why, /node 4 leads/);
        assert.match(why, /because/);
        await end(page);
    }],
    ["a partition that is drawn makes two leaders of bully", async () => {
        const page = await open(address);
        await runs(page, QUIET("bully"));
        await says(page, 5, "leads");
        await scrubTo(page, 0.3);
        await dragAcross(page);
        await page.locator("#speed").selectOption("5");
        await says(page, 3, "leads");
        assert.strictEqual(await leaders(page), 2);
        await page.locator('#properties li[data-state="broken"]', { hasText: "at-most-one-leader" }).waitFor();
        await end(page);
    }],
    ["the same leaves pole one", async () => {
        const page = await open(address);
        await runs(page, QUIET("pole"));
        await scrubTo(page, 0.3);
        await says(page, 5, "leads");
        await dragAcross(page);
        await page.locator("#speed").selectOption("5");
        await says(page, 3, "leads");
        assert.strictEqual(await leaders(page), 1);
        assert.strictEqual(await page.locator('#properties li[data-state="broken"]', { hasText: "at-most-one-leader" }).count(), 0);
        await end(page);
    }],
    ["going back and doing something else is a branch", async () => {
        const page = await open(address);
        await runs(page, QUIET("bully"));
        await scrubTo(page, 0.5);
        await node(page, 5).click();
        await page.getByRole("menuitem", { name: "Crash" }).click();
        await page.locator("#branches button").first().waitFor();
        await scrubTo(page, 0.25);
        await says(page, 5, "leads");
        await node(page, 4).click();
        await page.getByRole("menuitem", { name: "Crash" }).click();
        await says(page, 4, "down");
        const text = await page.locator("textarea").inputValue();
        assert.match(text, /crash 4/);
        assert.doesNotMatch(text, /crash 5/);
        assert.strictEqual(await page.locator("#branches button").count(), 2);
        await end(page);
    }],
    ["a link has the scenario and the seed in it", async () => {
        const page = await open(address);
        await type(page, `${QUIET("ring")}# für später\n`);
        await page.locator("#seed").fill("7");
        await page.locator("#seed").blur();
        await page.locator("h2", { hasText: "seed 7" }).waitFor();
        await page.locator("#share").click();
        await page.locator("#notice", { hasText: "nothing was sent" }).waitFor();
        const other = await open(page.url());
        await other.locator("h2", { hasText: "ring, 5 nodes, seed 7" }).waitFor();
        assert.match(await other.locator("textarea").inputValue(), /# für später/);
        await end(other);
        await end(page);
    }],
    ["two protocols run side by side", async () => {
        const page = await open(address);
        await story(page, "01-bully-two-leaders");
        await page.locator("#compare").click();
        await page.locator("#compare-protocol").fill("pole");
        await page.locator("#compare-form button").click();
        await page.locator('[data-view="1"] h2', { hasText: "pole" }).waitFor();
        await scrubTo(page, 0.5);
        await says(page, 3, "leads", 0);
        await says(page, 5, "leads", 0);
        await says(page, 3, "leads", 1);
        await says(page, 5, "no leader", 1);
        await end(page);
    }],
    ["a mistake in the scenario is told at its place, and the page goes on", async () => {
        const page = await open(address);
        await type(page, "protocol bully\nnodes 3\nat 1s crush 3\nrun 2s\n");
        await page.locator(".said", { hasText: "line 3, column 7" }).waitFor();
        assert.strictEqual(await page.locator(".editor pre .wrong").count(), 1);
        await type(page, "protocol bully\nnodes 3\nat 1s cra");
        await page.locator(".editor li", { hasText: "crash" }).waitFor();
        await page.locator("textarea").press("Tab");
        assert.match(await page.locator("textarea").inputValue(), /at 1s crash$/);
        await type(page, "protocol bully\nnodes 3\nat 1s crash 3\nrun 2s\n");
        await page.locator(".said").waitFor({ state: "hidden" });
        await page.locator("h2", { hasText: "bully, 3 nodes" }).waitFor();
        await end(page);
    }],
    ["what is typed stays when an earlier run appears", async () => {
        let goOn;
        const held = new Promise((resolve) => goOn = resolve);
        const page = await open(address, {}, (route) => held.then(() => route.continue()));
        await page.locator("#show-editor").click();
        await firstStory(page);
        await page.locator("textarea").fill("protocol bully\nnodes 3\nrun 2s\n# ");
        goOn();
        while (await page.locator('[data-view="0"] h2').textContent() === "") {
            await page.locator("textarea").press("x");
        }
        assert.match(await page.locator("textarea").inputValue(), /run 2s\n# x+$/);
        await page.locator("h2", { hasText: "bully, 3 nodes" }).waitFor();
        await end(page);
    }],
    ["a trace of the program plays, and cannot be changed", async () => {
        const trace = join(scratch, "native.trace");
        writeFileSync(join(scratch, "a.scn"), "protocol bully\nnodes 4\nat 1s crash 4\nrun 2s\n");
        execFileSync(conclave, ["sim", "-q", join(scratch, "a.scn"), "--trace", trace]);
        const page = await open(await serve(trace));
        await page.locator("h2", { hasText: "Trace native.trace" }).waitFor();
        await scrubTo(page, 0.9);
        await says(page, 3, "leads");
        await says(page, 4, "down");
        await node(page, 3).click();
        assert.strictEqual(await page.getByRole("menuitem", { name: "Crash" }).count(), 0);
        await end(page);
    }],
    ["a keyboard is enough, and what is dark is dark", async () => {
        const page = await open(address, { colorScheme: "dark", viewport: { width: 390, height: 800 } });
        await says(page, 5, "leads");
        const ground = await page.locator("body").evaluate((body) => getComputedStyle(body).backgroundColor);
        assert.strictEqual(ground, "rgb(20, 24, 27)");
        const wide = await page.evaluate(() => document.documentElement.scrollWidth);
        assert.ok(wide <= 390, `the page is ${wide} wide`);
        await page.keyboard.press("Space");
        assert.strictEqual(await page.locator("#play").getAttribute("aria-label"), "play");
        const before = await page.locator("#now").innerText();
        await page.keyboard.press("ArrowRight");
        assert.notStrictEqual(await page.locator("#now").innerText(), before);
        await node(page, 2).focus();
        await page.keyboard.press("Enter");
        await page.keyboard.press("ArrowDown");
        await page.keyboard.press("Enter");
        await says(page, 2, "down");
        const small = await page.evaluate(() => [...document.querySelectorAll("*")].filter((one) => one.innerText && parseFloat(getComputedStyle(one).fontSize) < 12).length);
        assert.strictEqual(small, 0);
        await end(page);
    }],
];

try {
    browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
    address = await serve();
    process.exitCode = await runPoints(points);
} finally {
    await browser?.close();
    ended.forEach((server) => server.kill("SIGINT"));
    rmSync(scratch, { recursive: true });
}
