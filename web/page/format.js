// Times and small texts for display.
const UNITS = { ns: 1e-9, us: 1e-6, ms: 1e-3, s: 1, min: 60, h: 3600 };

// "250ms" in seconds; 0 if it is not a time.
export function seconds(text) {
    const match = /^([\d.]+)(ns|us|ms|s|min|h)$/.exec(text);
    return match ? Number(match[1]) * UNITS[match[2]] : 0;
}

// An instant of a run, short.
export function instant(s) {
    return s < 1 ? `${(s * 1e3).toFixed(2)} ms` : `${s.toFixed(4)} s`;
}

// A length of time, with as many digits as are useful.
export function span(s) {
    if (s < 1e-3) {
        return `${(s * 1e6).toFixed(0)} µs`;
    }
    return s < 1 ? `${(s * 1e3).toPrecision(3)} ms` : `${s.toPrecision(3)} s`;
}

// The instant as a scenario writes it, rounded up to a hundredth of a millisecond: events on the
// screen have happened already.
export function scenarioTime(s) {
    return `${Math.ceil(s * 1e5) / 100}ms`;
}
