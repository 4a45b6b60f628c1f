// The time of the page: plays, pauses, steps, jumps. All other parts show its instant.
export class Player {
    atS = 0;
    speed = 0.05; // seconds of the run per second of the viewer
    isPlaying = false;
    #last = 0;

    // `endS()` is the end of what can be shown, `isOver()`: there will be no more; `show(atS)`
    // draws.
    constructor(endS, isOver, show) {
        this.endS = endS;
        this.isOver = isOver;
        this.show = show;
    }

    play() {
        if (this.isPlaying) {
            return;
        }
        if (this.atS >= this.endS() && this.isOver()) {
            this.atS = 0;
        }
        this.isPlaying = true;
        this.#last = performance.now();
        requestAnimationFrame((now) => this.#frame(now));
    }

    pause() {
        this.isPlaying = false;
        this.show(this.atS);
    }

    seek(atS) {
        this.atS = Math.max(0, Math.min(atS, this.endS()));
        this.show(this.atS);
    }

    #frame(now) {
        if (!this.isPlaying) {
            return;
        }
        const end = this.endS();
        if (this.atS < end) { // a run that was restarted may not have come as far yet
            this.atS = Math.min(end, this.atS + Math.max(0, now - this.#last) / 1e3 * this.speed);
        }
        this.#last = now;
        this.show(this.atS);
        if (this.atS >= end && this.isOver()) {
            this.pause();
        } else {
            requestAnimationFrame((next) => this.#frame(next));
        }
    }
}
