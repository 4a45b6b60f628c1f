// The editor: a text field over its own highlighted copy, with completion and error marks.
import { complete, highlight } from "./language.js";

export class Editor {
    // `onChange` is called a moment after the text has changed, or when the field is left.
    constructor(element, onChange) {
        this.area = element.querySelector("textarea");
        this.copy = element.querySelector("pre");
        this.list = element.querySelector("ul");
        this.said = element.querySelector(".said");
        this.chosen = 0;
        this.timer = null;
        this.onChange = onChange;
        this.area.addEventListener("input", () => {
            this.#paint();
            this.#offer();
            clearTimeout(this.timer);
            this.timer = setTimeout(() => this.#tell(), 350);
        });
        this.area.addEventListener("scroll", () => this.#scroll());
        this.area.addEventListener("keydown", (event) => this.#key(event));
        this.area.addEventListener("blur", () => {
            this.list.hidden = true;
            if (this.isTyping) {
                this.#tell();
            }
        });
    }

    get text() {
        return this.area.value;
    }

    // Is there text that `onChange` has not been told of?
    get isTyping() {
        return this.timer !== null;
    }

    set text(text) {
        clearTimeout(this.timer);
        this.timer = null;
        this.area.value = text;
        this.error = null;
        this.#paint();
    }

    #tell() {
        clearTimeout(this.timer);
        this.timer = null;
        this.onChange();
    }

    // null: there is no error.
    showError(error) {
        this.error = error;
        this.said.textContent = error ? (error.line ? `line ${error.line}, column ${error.column}: ${error.message}` : error.message) : "";
        this.said.hidden = !error;
        this.#paint();
    }

    #paint() {
        const html = this.text.split("\n").map((line, index) => {
            const isWrong = this.error?.line === index + 1;
            const mark = isWrong ? `<u style="left:${Math.max(0, this.error.column - 1)}ch"></u>` : "";
            return `<span class="${isWrong ? "wrong" : ""}">${mark}${highlight(line) || " "}</span>`;
        });
        this.copy.innerHTML = html.join("\n");
        this.#scroll();
    }

    #scroll() {
        this.copy.scrollTop = this.area.scrollTop;
        this.copy.scrollLeft = this.area.scrollLeft;
    }

    #before() {
        const text = this.text.slice(0, this.area.selectionStart);
        return text.slice(text.lastIndexOf("\n") + 1);
    }

    #offer() {
        const before = this.#before();
        const { word, candidates } = complete(before, this.words);
        const isUseful = !before.includes("#") && candidates.length > 0 && (word !== "" || before.endsWith(" ")) && before.trim() !== "";
        this.candidates = isUseful ? candidates.slice(0, 8) : [];
        this.word = word;
        this.chosen = 0;
        this.#showList(before);
    }

    #showList(before) {
        this.list.hidden = this.candidates.length === 0;
        this.list.replaceChildren(...this.candidates.map((candidate, index) => {
            const item = document.createElement("li");
            item.textContent = candidate;
            item.className = index === this.chosen ? "chosen" : "";
            item.addEventListener("pointerdown", (event) => {
                event.preventDefault();
                this.#take(index);
            });
            return item;
        }));
        const line = this.text.slice(0, this.area.selectionStart).split("\n").length;
        this.list.style.top = `calc(${line} * 1.5em + 0.6rem - ${this.area.scrollTop}px)`;
        this.list.style.left = `calc(${Math.max(0, before.length - this.word.length)}ch + 0.6rem - ${this.area.scrollLeft}px)`;
    }

    #take(index) {
        const at = this.area.selectionStart;
        this.area.setRangeText(this.candidates[index], at - this.word.length, at, "end");
        this.list.hidden = true;
        this.area.dispatchEvent(new Event("input"));
        this.list.hidden = true;
    }

    #key(event) {
        if (this.list.hidden) {
            return;
        }
        const moves = { ArrowDown: 1, ArrowUp: -1 };
        if (event.key in moves) {
            this.chosen = (this.chosen + moves[event.key] + this.candidates.length) % this.candidates.length;
            this.#showList(this.#before());
        } else if (event.key === "Enter" || event.key === "Tab") {
            this.#take(this.chosen);
        } else if (event.key === "Escape") {
            this.list.hidden = true;
        } else {
            return;
        }
        event.preventDefault();
        event.stopPropagation();
    }
}
