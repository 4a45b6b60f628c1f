// Colours that people with any kind of colour vision can tell apart [Okabe and Ito, 2008]. A shape
// or a word always has the same meaning as the colour. The plots of docs/lab have the same colours
// (src/lab/lab.c).
export const COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c6d1f", "#5a5a9c"];

// The colour of a leader and its followers.
export const ofNode = (id) => COLOURS[(id - 1) % COLOURS.length];
// A colour that is readable on it.
const LIGHT = new Set(["#e69f00", "#56b4e9", "#cc79a7"]);
export const inkOn = (colour) => LIGHT.has(colour) ? "#111" : "#fff";
export const ofType = (number) => COLOURS[number % COLOURS.length];

// The colours of the style sheet for the present theme. Every frame needs them, so they are kept.
let kept = null;
export function theme() {
    const { theme: name } = document.documentElement.dataset;
    if (kept?.name !== name) {
        kept = { name, look: read() };
    }
    return kept.look;
}

function read() {
    const style = getComputedStyle(document.documentElement);
    const value = (name) => style.getPropertyValue(name).trim();
    return { ink: value("--ink"), quiet: value("--quiet"), line: value("--line"), ground: value("--ground"), panel: value("--panel"), bad: value("--bad") };
}
