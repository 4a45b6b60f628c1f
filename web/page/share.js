// A scenario and its seed as the fragment of an address: nothing is sent to any server.
const through = async (bytes, stream) => new Uint8Array(await new Response(new Blob([bytes]).stream().pipeThrough(stream)).arrayBuffer());

const toText = (bytes) => btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join("")).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
const toBytes = (text) => Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (letter) => letter.charCodeAt(0));

export async function toFragment(text, seed) {
    const packed = await through(new TextEncoder().encode(text), new CompressionStream("deflate-raw"));
    return `#scn=${toText(packed)}${seed === undefined ? "" : `&seed=${seed}`}`;
}

// { text, seed } or { story }; null: the fragment has neither.
export async function fromFragment(fragment) {
    const fields = new URLSearchParams(fragment.replace(/^#/, ""));
    if (fields.has("story")) {
        return { story: fields.get("story") };
    }
    if (!fields.has("scn")) {
        return null;
    }
    try {
        const bytes = await through(toBytes(fields.get("scn")), new DecompressionStream("deflate-raw"));
        return { text: new TextDecoder().decode(bytes), seed: fields.has("seed") ? Number(fields.get("seed")) : undefined };
    } catch {
        throw new Error("this link is damaged: its scenario cannot be read");
    }
}

export function download(name, text, type) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type }));
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
