// The panels beside the stage: properties, reasons, the colours of messages.
import { ofType } from "./palette.js";
import { shape } from "./stage.js";
import { chain, when } from "./why.js";

function make(tag, text = "", className = "") {
    const element = document.createElement(tag);
    element.textContent = text;
    element.className = className;
    return element;
}

// Held, not tested yet, or broken, as of that instant; a broken one jumps to the instant at which
// it broke.
export function showProperties(list, view, atS, seek) {
    const broken = new Map(view.trace.broken.filter((one) => one.t_s <= atS).map((one) => [one.property, one]));
    const known = view.propertiesAt(atS) ?? [...broken.keys()].map((name) => ({ name, promised: true, judged: 1 }));
    const key = JSON.stringify([known.map((one) => [one.name, one.promised, one.judged > 0]), [...broken.keys()], view.trace.nodeCount]);
    if (list.dataset.key === key) {
        return;
    }
    list.dataset.key = key;
    const rows = known.filter((one) => one.promised || broken.has(one.name)).sort((a, b) => Number(b.promised) - Number(a.promised));
    list.replaceChildren(...rows.map((one) => propertyRow(one, broken.get(one.name), seek)));
    if (rows.length === 0) {
        list.replaceChildren(make("li", "nothing has been broken", "quiet"));
    }
}

function propertyRow({ name, promised, judged }, broken, seek) {
    const row = make("li");
    const [mark, word, className] = broken ? ["✗", promised ? "broken" : "does not hold; not promised", promised ? "bad" : "warn"]
        : judged > 0 ? ["✓", "held so far", "good"] : ["○", "not tested yet", "quiet"];
    row.append(make("span", `${mark} `, className), make("b", name), make("span", ` ${word}`, className));
    row.dataset.state = broken ? "broken" : judged > 0 ? "held" : "untested";
    if (broken) {
        const jump = make("button", `at ${when(broken)}`, "jump");
        jump.addEventListener("click", () => seek(broken.t_s));
        row.append(" ", jump, make("div", broken.detail, "quiet"));
    }
    return row;
}

// The steps back from a belief; each jumps to its instant.
export function showWhy(list, view, index, seek) {
    list.replaceChildren(...chain(view.trace, index).map((step, at) => {
        const row = make("li");
        const jump = make("button", when(step.record), "jump");
        jump.addEventListener("click", () => seek(step.record.t_s));
        row.append(jump, make("span", ` ${at === 0 ? "" : "because "}${step.text}`));
        step.notes.forEach((note) => row.append(make("div", `reason: ${note}`, "quiet")));
        return row;
    }));
}

export function showLegend(element, trace) {
    if (element.childElementCount === trace.types.size && element.dataset.of === trace.header?.protocol) {
        return;
    }
    element.dataset.of = trace.header?.protocol ?? "";
    element.replaceChildren(...[...trace.types].map(([type, number]) => {
        const item = make("span", type);
        const sign = document.createElement("canvas");
        Object.assign(sign, { width: 28, height: 28 });
        Object.assign(sign.style, { width: "14px", height: "14px" });
        const pen = sign.getContext("2d");
        pen.fillStyle = ofType(number);
        shape(pen, 14, 14, 10, number);
        item.prepend(sign);
        return item;
    }));
}
