// The places of nodes: on a circle, or around their site when the scenario has sites.
//
// All coordinates are within a unit square, for a stage of any size.
const TURN = 2 * Math.PI;

function onCircle(count, radius, centre) {
    return Array.from({ length: count }, (_, i) => ({
        x: centre.x + radius * Math.sin(TURN * i / count),
        y: centre.y - radius * Math.cos(TURN * i / count),
    }));
}

// { nodes: [{x, y}] by id - 1, sites: [{name, x, y, r}], size: radius of a node }
export function layout(header) {
    const centre = { x: 0.5, y: 0.5 };
    const sites = header.sites ?? [];
    const size = Math.min(0.05, 0.9 / Math.max(8, header.nodes));
    if (sites.length === 0) {
        return { nodes: onCircle(header.nodes, header.nodes === 1 ? 0 : 0.38, centre), sites: [], size };
    }
    const homeless = Array.from({ length: header.nodes }, (_, i) => i + 1).filter((id) => !sites.some((site) => site.nodes.includes(id)));
    const places = homeless.length === 0 ? sites : [...sites, { name: "elsewhere", nodes: homeless }];
    const centres = onCircle(places.length, places.length === 1 ? 0 : 0.28, centre);
    const room = places.length === 1 ? 0.16 : Math.min(0.16, 0.28 * Math.sin(TURN / 2 / places.length)); // so that they do not overlap
    const nodes = [];
    places.forEach((site, i) => {
        const around = onCircle(site.nodes.length, site.nodes.length === 1 ? 0 : Math.max(0.06, room - 0.06), centres[i]);
        site.nodes.forEach((id, j) => nodes[id - 1] = around[j]);
    });
    return { nodes, sites: places.map((site, i) => ({ name: site.name, ...centres[i], r: room })), size: Math.min(size, 0.042) };
}
