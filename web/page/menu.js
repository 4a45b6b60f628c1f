// Menus of a node and of a link: each entry is an action as a scenario writes it.
const PAUSE = "1s";

function close() {
    document.querySelector(".menu")?.remove();
}

function open(x, y, title, entries) {
    close();
    const menu = document.createElement("div");
    menu.className = "menu";
    menu.role = "menu";
    const head = document.createElement("b");
    head.textContent = title;
    menu.append(head);
    for (const entry of entries) {
        menu.append(entry instanceof Node ? entry : item(...entry));
    }
    document.body.append(menu);
    const box = menu.getBoundingClientRect();
    menu.style.left = `${Math.max(4, Math.min(x, innerWidth - box.width - 4))}px`;
    menu.style.top = `${Math.max(4, Math.min(y, innerHeight - box.height - 4))}px`;
    menu.querySelector("button")?.focus();
    menu.addEventListener("keydown", (event) => keys(event, menu));
    return menu;
}

function item(text, work) {
    const button = document.createElement("button");
    button.role = "menuitem";
    button.textContent = text;
    button.addEventListener("click", () => {
        close();
        work();
    });
    return button;
}

function keys(event, menu) {
    const items = [...menu.querySelectorAll("button, input, select")];
    const at = items.indexOf(document.activeElement);
    const moves = { ArrowDown: 1, ArrowUp: -1 };
    if (event.key === "Escape") {
        close();
    } else if (event.key in moves && document.activeElement.tagName === "BUTTON") {
        items[(at + moves[event.key] + items.length) % items.length].focus();
        event.preventDefault();
    }
    event.stopPropagation();
}

document.addEventListener("pointerdown", (event) => {
    if (!event.target.closest?.(".menu")) {
        close();
    }
});

// A line with a choice, a number and a button: score inputs.
function reportForm(id, act) {
    const form = document.createElement("form");
    form.innerHTML = `<select aria-label="score input"><option>load<option>capacity<option>request-rate<option>history-length<option>score</select>
        <input type="number" min="0" value="100" aria-label="value"><button>report</button>`;
    form.addEventListener("submit", (event) => {
        event.preventDefault();
        close();
        act(`report ${id} ${form.children[0].value} ${form.children[1].value}`);
    });
    return form;
}

// `act` does an action, `why` and `inside` show details of the node; `inside` is null for a
// recorded trace.
export function nodeMenu(node, nodeCount, button, { act, why, inside, onLink }) {
    const { id } = node;
    const box = button.getBoundingClientRect();
    const entries = [["Why does it believe that?", why]];
    if (act) {
        entries.push(...(node.isUp
            ? [["Crash", () => act(`crash ${id}`)],
                node.isPaused ? ["Resume", () => act(`resume ${id}`)] : [`Pause for ${PAUSE}`, () => act(`pause ${id} for ${PAUSE}`)],
                ["Ask it to resign", () => act(`resign ${id}`)],
                ["Let it not be a candidate", () => act(`campaign ${id} off`)],
                ["Let it be a candidate", () => act(`campaign ${id} on`)],
                ["Cut it off from the others", () => act(`link ${id}-* down`)],
                ["Bring its links up", () => act(`link ${id}-* up`)]]
            : [["Recover", () => act(`recover ${id}`)]]));
        if (nodeCount > 1) {
            entries.push(["A link of it …", () => onLink(id === 1 ? 2 : 1, id, box.right, box.top)]);
        }
        entries.push(["What is inside?", inside], reportForm(id, act));
    }
    open(box.right + 4, box.top, `node ${id}`, entries);
}

export function linkMenu(a, b, x, y, act) {
    open(x, y, `link ${a} – ${b}`, [
        ["Cut both ways", () => act(`link ${a}-${b} down`)],
        [`Cut ${a} → ${b} only`, () => act(`link ${a}>${b} down`)],
        [`Cut ${b} → ${a} only`, () => act(`link ${b}>${a} down`)],
        ["Mend", () => act(`link ${a}-${b} up`)],
        ["Delay of 50 ms", () => act(`link ${a}-${b} delay 50ms`)],
        ["Lose 30 %", () => act(`link ${a}-${b} loss 30%`)],
        ["As it was: 1 ms, no loss", () => act(`link ${a}-${b} delay 1ms loss 0%`)],
    ]);
}
