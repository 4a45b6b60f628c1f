// The page as a whole: passes the viewer's requests to the parts that handle them.
import { variant } from "./compare.js";
import { Editor } from "./editor.js";
import { instant, scenarioTime, seconds } from "./format.js";
import { showGallery, showStory, stories } from "./gallery.js";
import { join } from "./join.js";
import { linkMenu, nodeMenu } from "./menu.js";
import { showLegend, showProperties, showWhy } from "./panels.js";
import { Player } from "./player.js";
import { look, words } from "./runs.js";
import { download, fromFragment, toFragment } from "./share.js";
import { View } from "./view.js";
import { beliefBefore, describe } from "./why.js";

const byId = (id) => document.getElementById(id);
const views = [];
let branches = []; // { text, seed, name }: earlier versions that the viewer can go back to

const player = new Player(() => views[0].trace.nowS, () => views[0].trace.isComplete, show);

function notice(text) {
    byId("notice").textContent = text;
}

// ---- Showing ----

function show(atS) {
    const [view] = views;
    views.forEach((one) => one.draw(atS, player.isPlaying ? player.speed : Math.min(player.speed, 0.02)));
    byId("now").textContent = instant(atS);
    byId("scrub").value = view.trace.durationS ? 10000 * atS / view.trace.durationS : 0;
    byId("scrub").setAttribute("aria-valuetext", instant(atS));
    byId("play").textContent = player.isPlaying ? "❚❚" : "▶";
    byId("play").setAttribute("aria-label", player.isPlaying ? "pause" : "play");
    const index = view.trace.indexAfter(atS) - 1;
    byId("event").textContent = index >= 0 ? `${instant(view.trace.records[index].t_s)}: ${describe(view.trace, view.trace.records[index])}` : "";
    showProperties(byId("properties"), view, atS, (to) => player.seek(to));
}

function changed() {
    showLegend(byId("legend"), views[0].trace);
    if (!player.isPlaying) {
        show(player.atS);
    }
}

function why(view, index) {
    if (index < 0) {
        byId("why-hint").textContent = "This node has not made up its mind yet.";
        byId("why-hint").hidden = false;
        byId("why").replaceChildren();
        return;
    }
    byId("why-hint").hidden = true;
    byId("inside").hidden = true;
    player.pause();
    player.seek(view.trace.records[index].t_s);
    showWhy(byId("why"), view, index, (to) => player.seek(to));
}

// ---- Doing ----

function makeView(element) {
    return new View(element, {
        node: askNode,
        link: (view, a, b, x, y) => view.isLive && linkMenu(a, b, x, y, act),
        partition: (view, parts) => view.isLive ? act(`partition ${parts.map((part) => part.join(" ")).join(" | ")}`) : notice("A trace only plays; nothing in it can be changed."),
        seek: (atS) => player.seek(atS),
        why,
        change: changed,
        accepted,
        error: refused,
    });
}

function accepted(view) {
    if (view === views[0]) {
        editor.showError(null);
        if (editor.text !== view.text && !editor.isTyping) {
            editor.text = view.text;
        }
        document.title = `conclave: ${/^\s*protocol\s+(\S+)/m.exec(view.text)?.[1] ?? ""}`;
    }
    notice("");
}

function refused(error, view) {
    if (view === views[0] && error.line && !view.isInjecting) {
        editor.showError(error);
        showTab("editor");
    } else {
        notice(error.message);
    }
    view.isInjecting = false;
}

function askNode(view, id, button) {
    view.moment.seek(Math.min(player.atS, view.trace.nowS));
    nodeMenu(view.moment.nodes[id - 1], view.trace.nodeCount, button, {
        act: view.isLive ? act : null,
        why: () => why(view, beliefBefore(view.trace, id, player.atS)),
        inside: () => showInside(view, id),
        onLink: (a, b, x, y) => linkMenu(a, b, x, y, act),
    });
}

async function showInside(view, id) {
    player.pause();
    const inside = await look(view.text, view.seed, id, player.atS);
    byId("inside").textContent = `node ${id}\n${JSON.stringify(inside, null, 1).replace(/[{}",]/g, "").replace(/\n\s*\n/g, "\n")}`;
    byId("inside").hidden = false;
}

// An action at the shown instant: a branch that differs from here on. Actions that were injected
// later on the present branch stay there.
function act(action) {
    const at = scenarioTime(player.atS);
    branches.push({ text: views[0].text, seed: views[0].seed, name: `before ${action} at ${at}` });
    showBranches();
    for (const view of views) {
        view.isInjecting = true;
        view.start({ text: withoutLater(view.text, player.atS), seed: view.seed, inject: { atS: seconds(at), action } });
    }
    player.play();
}

// Lines that this page has added are at the end, below the mark; those after the instant are
// removed.
const MARK = "# from here on: done in the playground";
function withoutLater(text, atS) {
    const at = text.indexOf(MARK);
    if (at < 0) {
        return `${text.trimEnd()}\n${MARK}\n`;
    }
    const kept = text.slice(at).split("\n").filter((line) => !line.startsWith("at ") || seconds(line.split(" ")[1]) <= atS);
    return text.slice(0, at) + kept.join("\n");
}

function showBranches() {
    byId("branches").hidden = branches.length === 0;
    byId("branches").querySelector("ul").replaceChildren(...branches.map((branch) => {
        const row = document.createElement("li");
        const button = document.createElement("button");
        button.textContent = branch.name;
        button.addEventListener("click", () => {
            views[0].start(branch);
        });
        row.append(button);
        return row;
    }));
}

function load(text, seed, story = null) {
    branches = [];
    showBranches();
    endCompare();
    showStory(byId("story"), story);
    byId("why").replaceChildren();
    byId("why-hint").hidden = false;
    byId("inside").hidden = true;
    byId("seed").value = seed ?? "";
    editor.text = text;
    player.pause();
    player.seek(0);
    views[0].start({ text, seed });
    player.play();
}

function edited() {
    const seed = byId("seed").value === "" ? undefined : Number(byId("seed").value);
    branches = [];
    showBranches();
    endCompare();
    views[0].start({ text: editor.text, seed });
}

// ---- Compare ----

function compare(line) {
    if (views.length === 1) {
        const element = views[0].element.cloneNode(true);
        element.dataset.view = "1";
        element.querySelector(".nodes").replaceChildren();
        byId("views").append(element);
        byId("views").classList.add("two");
        views.push(makeView(element));
    }
    views[1].start({ text: variant(views[0].text, line), seed: views[0].seed });
    player.seek(player.atS);
    byId("compare").setAttribute("aria-pressed", "true");
}

function endCompare() {
    byId("compare-form").hidden = true;
    byId("compare").setAttribute("aria-pressed", "false");
    if (views.length > 1) {
        const view = views.pop();
        view.stop?.();
        view.element.remove();
        byId("views").classList.remove("two");
    }
}

// ---- Files and links ----

// A scenario, a trace, or the traces of several processes: [text, name] of each.
function openTexts(files) {
    const [[text]] = files;
    const name = files.map(([, one]) => one).join(", ");
    try {
        if (files.length > 1 || /^\s*\{/.test(text)) {
            const trace = join(files.map(([one]) => one));
            endCompare();
            views[0].stop?.();
            views[0].open(trace);
            showStory(byId("story"), { title: `Trace ${name}`, text: "A recorded run: it plays and explains itself, and nothing in it can be changed." });
            editor.text = "";
            player.pause();
            player.seek(0);
        } else {
            load(text);
        }
        notice("");
    } catch (error) {
        notice(`${name}: ${error.message}`);
    }
}

async function openFiles(files) {
    if (files.length > 0) {
        openTexts(await Promise.all([...files].map(async (file) => [await file.text(), file.name])));
    }
}

async function openFragment() {
    try {
        const asked = await fromFragment(location.hash);
        const story = asked?.story && list.find((one) => one.name === asked.story);
        if (story) {
            load(story.scenario, undefined, story);
        } else if (asked?.text !== undefined) {
            load(asked.text, asked.seed);
            showTab("editor");
        } else {
            return false;
        }
        return true;
    } catch (error) {
        notice(error.message);
        return false;
    }
}

async function share() {
    const fragment = await toFragment(views[0].text, views[0].seed);
    history.replaceState(null, "", fragment);
    let copied = "The address of this page is the link now.";
    try {
        await navigator.clipboard.writeText(location.href);
        copied = "The link is in the clipboard.";
    } catch {
        // a page may write to the clipboard only with permission
    }
    notice(`${copied} It has the scenario and the seed in it; nothing was sent anywhere.`);
}

// ---- The parts of the page ----

function showTab(name) {
    for (const one of ["gallery", "editor"]) {
        byId(one).hidden = one !== name;
        byId(`show-${one}`).setAttribute("aria-pressed", String(one === name));
    }
}

// To the next instants with an event, or back to the previous ones.
function step(count) {
    const { trace } = views[0];
    let { atS } = player;
    for (let i = 0; i < Math.abs(count); i++) {
        const record = count > 0 ? trace.records[trace.indexAfter(atS)] : trace.records[trace.indexFrom(atS) - 1];
        atS = record?.t_s ?? (count > 0 ? trace.nowS : 0);
    }
    player.pause();
    player.seek(atS);
}

const KEYS = {
    " ": () => player.isPlaying ? player.pause() : player.play(),
    ArrowRight: (event) => step(event.shiftKey ? 10 : 1),
    ArrowLeft: (event) => step(event.shiftKey ? -10 : -1),
    Home: () => player.seek(0),
    End: () => player.seek(views[0].trace.durationS),
    "+": () => views.forEach((view) => view.timeline.zoom(2)),
    "-": () => views.forEach((view) => view.timeline.zoom(0.5)),
};

function listen() {
    const click = (id, work) => byId(id).addEventListener("click", work);
    click("show-gallery", () => showTab("gallery"));
    click("show-editor", () => showTab("editor"));
    click("open", () => byId("file").click());
    click("share", share);
    click("export-scn", () => download("scenario.scn", views[0].text ?? "", "text/plain"));
    click("export-trace", () => download("run.trace", views[0].raw, "application/jsonl"));
    click("compare", () => views.length > 1 ? endCompare() : byId("compare-form").toggleAttribute("hidden"));
    click("theme", () => setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"));
    click("play", KEYS[" "]);
    click("back", () => step(-1));
    click("forward", () => step(1));
    click("zoom-in", KEYS["+"]);
    click("zoom-out", KEYS["-"]);
    click("heal", () => views[0].isLive && act("heal"));
    byId("compare-form").addEventListener("submit", (event) => {
        event.preventDefault();
        compare(byId("compare-protocol").value.trim());
    });
    byId("scrub").addEventListener("input", (event) => {
        const share = event.target.value / 10000; // before a frame is drawn, which changes the value
        player.pause();
        player.seek(views[0].trace.durationS * share);
    });
    byId("speed").addEventListener("change", (event) => player.speed = Number(event.target.value));
    byId("seed").addEventListener("change", edited);
    byId("file").addEventListener("change", async (event) => {
        await openFiles(event.target.files);
    });
    document.addEventListener("keydown", (event) => {
        if (!event.target.closest("textarea, input, select, .menu") && KEYS[event.key] && !event.ctrlKey && !event.metaKey &&
            !(event.key === " " && event.target.closest("button"))) {
            event.preventDefault();
            KEYS[event.key](event);
        }
    });
    listenForDrops();
    addEventListener("hashchange", openFragment);
}

function listenForDrops() {
    addEventListener("dragover", (event) => {
        event.preventDefault();
        document.body.classList.add("drop");
    });
    addEventListener("dragleave", () => document.body.classList.remove("drop"));
    addEventListener("drop", async (event) => {
        event.preventDefault();
        document.body.classList.remove("drop");
        await openFiles(event.dataTransfer.files);
    });
}

function setTheme(theme) {
    document.documentElement.dataset.theme = theme;
    localStorage.setItem("conclave-theme", theme);
    if (views[0]?.moment) {
        show(player.atS);
    }
}

// ---- The beginning ----

const editor = new Editor(byId("editor"), edited);
views.push(makeView(document.querySelector(".view")));
setTheme(localStorage.getItem("conclave-theme") ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light"));
listen();
const list = await stories();
showGallery(byId("gallery"), list, (story) => {
    history.replaceState(null, "", `#story=${story.name}`);
    load(story.scenario, undefined, story);
    byId("story").scrollIntoView({ block: "nearest" }); // on a phone it is above the list
});
const asked = new URLSearchParams(location.search).getAll("file");
if (asked.length > 0) { // the files of `conclave play FILE...`
    openTexts(await Promise.all(asked.map(async (name, i) => {
        const response = await fetch(new URL(i === 0 ? "./file" : `./file-${i + 1}`, import.meta.url));
        return [await response.text(), name];
    })));
} else if (!await openFragment()) {
    load(list[0].scenario, undefined, list[0]);
}
words().then((known) => {
    editor.words = known;
    byId("protocols").replaceChildren(...known.protocols.map((one) => new Option(one.name)));
});
