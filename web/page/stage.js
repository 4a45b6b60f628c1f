// The stage: nodes and their leaders, messages in flight, leases, promises, partitions and cuts.
//
// Lines and messages are drawn on a canvas, sixty times a second while the run plays. Nodes are
// buttons above it, so that keyboards and screen readers reach them.
import { layout } from "./layout.js";
import { inkOn, ofNode, ofType, theme } from "./palette.js";
import { isValid, validUntil } from "./trace.js";

const FLIGHTS_MAX = 600; // drawn at a time
const SEEN_S = 0.3; // a message whose flight looks shorter to the viewer is drawn for so long
const LINK_NEAR_PX = 9; // a click this near to a link selects it

export class Stage {
    // `on` has node(id, button), link(a, b, x, y), partition(parts): the viewer's requests.
    constructor(element, on) {
        this.on = on;
        this.element = element;
        this.canvas = element.querySelector("canvas");
        this.layer = element.querySelector(".nodes");
        this.drag = null;
        this.first = 0; // flights before this one have ended long ago
        this.lastS = 0;
        this.canvas.addEventListener("pointerdown", (event) => this.#dragBegin(event));
        this.canvas.addEventListener("pointermove", (event) => this.#dragMove(event));
        this.canvas.addEventListener("pointerup", (event) => this.#dragEnd(event));
        this.canvas.addEventListener("pointercancel", () => this.drag = null);
        new ResizeObserver(() => this.#resize()).observe(element);
    }

    show(moment) {
        this.moment = moment;
        this.layout = layout(moment.trace.header);
        this.first = 0;
        this.lastS = 0;
        this.layer.replaceChildren(...moment.nodes.map((node) => this.#button(node.id)));
        this.#resize();
    }

    #button(id) {
        const button = document.createElement("button");
        button.className = "node";
        button.dataset.node = id;
        button.innerHTML = `<b>${id}</b><span></span>`;
        button.addEventListener("click", () => this.on.node(id, button));
        return button;
    }

    #resize() {
        const { width, height } = this.element.getBoundingClientRect();
        const scale = window.devicePixelRatio || 1;
        this.canvas.width = width * scale;
        this.canvas.height = height * scale;
        this.scale = scale;
        this.side = Math.max(60, Math.min(width, height));
        this.left = (width - this.side) / 2;
        this.top = (height - this.side) / 2;
        if (this.layout) {
            this.layout.nodes.forEach((_, i) => this.#place(i));
            this.draw(this.lastS, 1);
        }
    }

    #place(index) {
        const { x, y } = this.#at(index + 1);
        const button = this.layer.children[index];
        const size = Math.max(26, 2 * this.layout.size * this.side);
        Object.assign(button.style, { left: `${x - size / 2}px`, top: `${y - size / 2}px`, width: `${size}px`, height: `${size}px` });
    }

    #at(id) {
        if (id === 0) { // the store or the sequencer
            return { x: this.left + this.side / 2, y: this.top + this.side / 2 };
        }
        const { x, y } = this.layout.nodes[id - 1];
        return { x: this.left + x * this.side, y: this.top + y * this.side };
    }

    get #radius() {
        return Math.max(13, this.layout.size * this.side);
    }

    // Draws an instant. `speed`: seconds of the run per second of the viewer.
    draw(atS, speed) {
        if (!this.moment || this.moment.nodes.length === 0) {
            return;
        }
        this.lastS = atS;
        this.moment.seek(atS);
        const pen = this.canvas.getContext("2d");
        pen.setTransform(this.scale, 0, 0, this.scale, 0, 0);
        pen.clearRect(0, 0, this.canvas.width, this.canvas.height);
        pen.textAlign = "center";
        const look = theme();
        this.leads = this.moment.trace.leaderships.filter((one) => isValid(one, atS));
        this.#drawSites(pen, look);
        this.#drawParts(pen, look);
        this.#drawLinks(pen, look);
        this.#drawAsked(pen, look);
        this.#drawFollowing(pen);
        this.#drawLeases(pen, atS);
        this.#drawFlights(pen, atS, speed, look);
        this.#nameSites(pen, look);
        this.#drawDrag(pen, look);
        this.moment.nodes.forEach((node, index) => this.#updateNode(node, this.layer.children[index], atS));
    }

    #drawSites(pen, look) {
        for (const site of this.layout.sites) {
            const [x, y, r] = [this.left + site.x * this.side, this.top + site.y * this.side, site.r * this.side];
            pen.beginPath();
            pen.arc(x, y, r, 0, 7);
            pen.strokeStyle = look.line;
            pen.setLineDash([2, 4]);
            pen.stroke();
            pen.setLineDash([]);
        }
    }

    // After links and messages, with a border in the background colour: no line crosses a name.
    #nameSites(pen, look) {
        pen.font = "12px system-ui, sans-serif";
        for (const site of this.layout.sites) {
            const [x, y, r] = [this.left + site.x * this.side, this.top + site.y * this.side, site.r * this.side];
            this.#label(pen, look, site.name, x, y - r - 6); // the labels of nodes are below
        }
    }

    // A label as near to that place as the canvas has room for it.
    #label(pen, look, text, x, y) {
        const [width, height] = [this.canvas.width / this.scale, this.canvas.height / this.scale];
        const half = pen.measureText(text).width / 2 + 3;
        const at = [Math.max(half, Math.min(width - half, x)), Math.max(14, Math.min(height - 5, y))];
        pen.textAlign = "center";
        pen.lineJoin = "round";
        pen.lineWidth = 4;
        pen.strokeStyle = look.ground;
        pen.strokeText(text, ...at);
        pen.fillStyle = look.quiet;
        pen.fillText(text, ...at);
        pen.lineWidth = 1;
    }

    // The parts of a partition, each shaded around its nodes and with its letter.
    #drawParts(pen, look) {
        const { groups } = this.moment;
        if (!groups) {
            return;
        }
        const names = [...new Set(groups)].sort();
        names.forEach((group, index) => {
            const points = groups.flatMap((one, i) => one === group ? [this.#at(i + 1)] : []);
            this.#shade(pen, convexHull(points), ofType(index + 4));
            const top = points.reduce((best, p) => p.y < best.y ? p : best);
            pen.font = "bold 13px system-ui, sans-serif";
            this.#label(pen, look, `part ${String.fromCharCode(65 + index)}`, top.x, top.y - this.#radius - 12);
        });
    }

    // Drawn on another canvas and laid over, so that border and inside do not add up.
    #shade(pen, hull, colour) {
        this.apart ??= document.createElement("canvas");
        Object.assign(this.apart, { width: this.canvas.width, height: this.canvas.height });
        const brush = this.apart.getContext("2d");
        brush.setTransform(this.scale, 0, 0, this.scale, 0, 0);
        hull.forEach((p) => brush.lineTo(p.x, p.y));
        brush.closePath();
        Object.assign(brush, { lineJoin: "round", lineWidth: 3.4 * this.#radius, strokeStyle: colour, fillStyle: colour });
        brush.stroke();
        brush.fill();
        pen.globalAlpha = 0.2;
        pen.drawImage(this.apart, 0, 0, this.canvas.width / this.scale, this.canvas.height / this.scale);
        pen.globalAlpha = 1;
    }

    #drawLinks(pen, look) {
        const count = this.moment.nodes.length;
        pen.lineWidth = 1;
        for (let a = 1; a <= count && count <= 24; a++) {
            for (let b = a + 1; b <= count; b++) {
                const [there, back] = [this.moment.cuts.has(`${a}>${b}`), this.moment.cuts.has(`${b}>${a}`)];
                const weak = this.moment.weak.has(`${a}>${b}`) || this.moment.weak.has(`${b}>${a}`);
                this.#drawLink(pen, look, this.#at(a), this.#at(b), { there, back, weak });
            }
        }
    }

    #drawLink(pen, look, a, b, { there, back, weak }) {
        pen.strokeStyle = there || back ? look.bad : look.line;
        pen.setLineDash(there && back ? [2, 6] : weak ? [8, 3] : []);
        pen.globalAlpha = there && back ? 0.5 : 0.8;
        pen.beginPath();
        pen.moveTo(a.x, a.y);
        pen.lineTo(b.x, b.y);
        pen.stroke();
        pen.setLineDash([]);
        pen.globalAlpha = 1;
        if (there || back) { // a cross nearer to the end that cannot send
            const share = there && back ? 0.5 : there ? 0.3 : 0.7;
            cross(pen, a.x + (b.x - a.x) * share, a.y + (b.y - a.y) * share, 5, look.bad);
        }
    }

    // The store or the sequencer, in the middle.
    #drawAsked(pen, look) {
        const { asked } = this.moment.trace;
        if (asked === "") {
            return;
        }
        const { x, y } = this.#at(0);
        pen.fillStyle = look.panel;
        pen.strokeStyle = asked === "store" && !this.moment.store.isUp ? look.bad : look.quiet;
        pen.lineWidth = 2;
        pen.beginPath();
        pen.rect(x - 36, y - 14, 72, 28);
        pen.fill();
        pen.stroke();
        pen.lineWidth = 1;
        pen.fillStyle = look.ink;
        pen.font = "12px system-ui, sans-serif";
        pen.textAlign = "center";
        pen.fillText(asked, x, y + 4);
    }

    #drawFollowing(pen) {
        for (const node of this.moment.nodes) {
            if (!node.isUp || node.leader === 0 || node.leader === node.id || node.leader > this.moment.nodes.length) {
                continue;
            }
            const [from, to] = [this.#at(node.id), this.#at(node.leader)];
            const length = Math.hypot(to.x - from.x, to.y - from.y) || 1;
            const [dx, dy] = [(to.x - from.x) / length, (to.y - from.y) / length];
            const r = this.#radius + 5;
            arrow(pen, from.x + dx * r, from.y + dy * r, to.x - dx * (r + 4), to.y - dy * (r + 4), ofNode(node.leader));
        }
    }

    // The time left of a leader: a ring that shrinks. It stays whole for a leadership without an
    // end of its own.
    #drawLeases(pen, atS) {
        for (const lead of this.leads) {
            const { x, y } = this.#at(lead.node);
            const { since, until } = validUntil(lead, atS);
            const left = until === null ? 1 : Math.max(0, (until - atS) / (until - since));
            pen.beginPath();
            pen.arc(x, y, this.#radius + 6, -Math.PI / 2, -Math.PI / 2 + 2 * Math.PI * left);
            pen.strokeStyle = ofNode(lead.node);
            pen.lineWidth = 4;
            pen.stroke();
        }
        pen.lineWidth = 1;
    }

    #drawFlights(pen, atS, speed, look) {
        const { flights, types } = this.moment.trace;
        const seen = SEEN_S * speed;
        if (flights[this.first] && flights[this.first].sent > atS) {
            this.first = 0;
        }
        while (this.first < flights.length && (flights[this.first].ends ?? atS) < atS - 4 * seen && flights[this.first].sent < atS - 4 * seen) {
            this.first++;
        }
        let drawn = 0;
        for (let i = this.first; i < flights.length && flights[i].sent <= atS && drawn < FLIGHTS_MAX; i++) {
            drawn += this.#drawFlight(pen, flights[i], atS, seen, types, look);
        }
        this.flightCount = drawn;
    }

    #drawFlight(pen, flight, atS, seen, types, look) {
        const takes = Math.max((flight.ends ?? atS + seen) - flight.sent, seen);
        const share = (atS - flight.sent) / takes;
        const arrives = flight.fate === "deliver" || flight.ends === null;
        if (share > 1 || flight.from === flight.to) {
            return 0;
        }
        const reach = arrives ? share : Math.min(share, 0.55); // a lost message gets half of the way
        const [a, b] = [this.#at(flight.from), this.#at(flight.to)];
        const side = 4 / (Math.hypot(b.x - a.x, b.y - a.y) || 1); // so that both directions do not overlap
        const x = a.x + (b.x - a.x) * reach + (b.y - a.y) * side;
        const y = a.y + (b.y - a.y) * reach - (b.x - a.x) * side;
        const number = types.get(flight.type);
        pen.globalAlpha = arrives ? 1 : Math.max(0, 1 - share);
        pen.fillStyle = ofType(number);
        shape(pen, x, y, 5, number);
        if (!arrives && share > 0.5) {
            cross(pen, x, y, 4, look.bad);
        }
        pen.globalAlpha = 1;
        return 1;
    }

    #updateNode(node, button, atS) {
        const leads = this.leads.some((one) => one.node === node.id);
        const promise = node.promise && node.promise.until > atS ? node.promise : null;
        const state = !node.isUp ? "down" : node.isPaused ? "paused" : leads ? "leads" : node.leader ? `follows ${node.leader}` : "no leader";
        const label = `node ${node.id}: ${state}${node.token && node.isUp ? `, token ${node.token}` : ""}${promise ? `, ${promise.word} ${promise.to}` : ""}`;
        if (button.title !== label) {
            button.title = label;
            button.setAttribute("aria-label", label);
            button.className = `node ${!node.isUp ? "down" : node.isPaused ? "paused" : leads ? "leads" : ""}`;
            button.style.setProperty("--who", node.isUp && node.leader ? ofNode(node.leader) : "");
            button.style.setProperty("--on", node.leader ? inkOn(ofNode(node.leader)) : "");
            const token = node.isUp && node.leader && node.token < 1e6 ? `token ${node.token}` : "";
            button.lastChild.textContent = !node.isUp ? "down" : node.isPaused ? "paused" : leads ? `★ ${token}` : promise ? `${promise.word.split(" ")[0]} → ${promise.to}` : "";
        }
    }

    // ---- What the viewer does ----

    #dragBegin(event) {
        this.canvas.setPointerCapture(event.pointerId);
        this.drag = { x: event.offsetX, y: event.offsetY, toX: event.offsetX, toY: event.offsetY };
    }

    #dragMove(event) {
        if (this.drag) {
            Object.assign(this.drag, { toX: event.offsetX, toY: event.offsetY });
            this.draw(this.lastS, 1);
        }
    }

    #dragEnd(event) {
        const drag = this.drag;
        this.drag = null;
        if (!drag || !this.moment) {
            return;
        }
        if (Math.hypot(drag.toX - drag.x, drag.toY - drag.y) < 12) {
            const link = this.#linkNear(drag.x, drag.y);
            if (link) {
                this.on.link(...link, event.clientX, event.clientY);
            }
            return;
        }
        const parts = this.#sides(drag);
        this.draw(this.lastS, 1);
        if (parts.every((part) => part.length > 0)) {
            this.on.partition(parts);
        }
    }

    // The side of the line on which each node is.
    #sides({ x, y, toX, toY }) {
        const parts = [[], []];
        this.moment.nodes.forEach((node) => {
            const at = this.#at(node.id);
            parts[(toX - x) * (at.y - y) - (toY - y) * (at.x - x) > 0 ? 1 : 0].push(node.id);
        });
        return parts;
    }

    #linkNear(x, y) {
        let [best, found] = [LINK_NEAR_PX, null];
        for (let a = 1; a <= this.moment.nodes.length; a++) {
            for (let b = a + 1; b <= this.moment.nodes.length; b++) {
                const far = distance(x, y, this.#at(a), this.#at(b));
                if (far < best) {
                    [best, found] = [far, [a, b]];
                }
            }
        }
        return found;
    }

    #drawDrag(pen, look) {
        if (this.drag) {
            pen.strokeStyle = look.bad;
            pen.lineWidth = 3;
            pen.beginPath();
            pen.moveTo(this.drag.x, this.drag.y);
            pen.lineTo(this.drag.toX, this.drag.toY);
            pen.stroke();
            pen.lineWidth = 1;
        }
    }
}

// ---- Shapes: each type of message has its own, besides its colour ----

export function shape(pen, x, y, r, number) {
    const corners = [0, 4, 3, 5, 6][number % 5];
    pen.beginPath();
    if (corners === 0) {
        pen.arc(x, y, r, 0, 7);
    } else {
        for (let i = 0; i < corners; i++) {
            const turn = 2 * Math.PI * i / corners - Math.PI / 2;
            pen.lineTo(x + 1.15 * r * Math.cos(turn), y + 1.15 * r * Math.sin(turn));
        }
    }
    pen.fill();
}

function cross(pen, x, y, r, colour) {
    pen.strokeStyle = colour;
    pen.lineWidth = 2;
    pen.beginPath();
    pen.moveTo(x - r, y - r);
    pen.lineTo(x + r, y + r);
    pen.moveTo(x + r, y - r);
    pen.lineTo(x - r, y + r);
    pen.stroke();
    pen.lineWidth = 1;
}

function arrow(pen, x, y, toX, toY, colour) {
    const turn = Math.atan2(toY - y, toX - x);
    pen.strokeStyle = pen.fillStyle = colour;
    pen.globalAlpha = 0.55;
    pen.lineWidth = 2;
    pen.beginPath();
    pen.moveTo(x, y);
    pen.lineTo(toX, toY);
    pen.stroke();
    pen.beginPath();
    pen.moveTo(toX, toY);
    pen.lineTo(toX - 9 * Math.cos(turn - 0.4), toY - 9 * Math.sin(turn - 0.4));
    pen.lineTo(toX - 9 * Math.cos(turn + 0.4), toY - 9 * Math.sin(turn + 0.4));
    pen.fill();
    pen.globalAlpha = 1;
    pen.lineWidth = 1;
}

function distance(x, y, a, b) {
    const [dx, dy] = [b.x - a.x, b.y - a.y];
    const share = Math.max(0, Math.min(1, ((x - a.x) * dx + (y - a.y) * dy) / (dx * dx + dy * dy || 1)));
    return Math.hypot(x - a.x - share * dx, y - a.y - share * dy);
}

function convexHull(points) {
    const sorted = [...points].sort((p, q) => p.x - q.x || p.y - q.y);
    const turn = (o, p, q) => (p.x - o.x) * (q.y - o.y) - (p.y - o.y) * (q.x - o.x);
    const half = (list) => {
        const hull = [];
        for (const p of list) {
            while (hull.length > 1 && turn(hull.at(-2), hull.at(-1), p) <= 0) {
                hull.pop();
            }
            hull.push(p);
        }
        return hull.slice(0, -1);
    };
    return sorted.length < 3 ? sorted : [...half(sorted), ...half(sorted.reverse())];
}
