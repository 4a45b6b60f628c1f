// The gallery: stories of docs/gallery, each a scenario whose first comment is its story.
export async function stories() {
    const response = await fetch(new URL("./stories.json", import.meta.url));
    return response.json();
}

export function showGallery(element, list, choose) {
    const groups = Map.groupBy ? Map.groupBy(list, (story) => story.group) : grouped(list);
    element.replaceChildren(...[...groups].flatMap(([group, members]) => {
        const head = document.createElement("h3");
        head.textContent = group;
        return [head, ...members.map((story) => entry(story, choose))];
    }));
}

function grouped(list) {
    const groups = new Map();
    list.forEach((story) => groups.set(story.group, [...(groups.get(story.group) ?? []), story]));
    return groups;
}

function entry(story, choose) {
    const button = document.createElement("button");
    button.dataset.story = story.name;
    button.textContent = story.title;
    const small = document.createElement("small");
    small.textContent = `${story.protocol}, ${story.nodes} nodes`;
    button.append(small);
    button.addEventListener("click", () => choose(story));
    return button;
}

export function showStory(element, story) {
    const head = document.createElement("h2");
    head.textContent = story?.title ?? "";
    const text = document.createElement("p");
    text.textContent = story?.text ?? "";
    element.replaceChildren(...(story ? [head, text] : []));
}
