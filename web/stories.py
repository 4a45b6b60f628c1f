#!/usr/bin/env python3
"""web/stories.py OUTPUT SCENARIO... - the gallery of the page, as one JSON file.

A story is a scenario whose first comment lines are its title, `group: NAME`, and the story itself."""

import json
import pathlib
import re
import sys


def story(path):
    text = path.read_text(encoding="utf-8")
    comments = []
    for line in text.splitlines():
        if not line.startswith("#"):
            break
        comments.append(line.lstrip("# "))
    if len(comments) != 5 or not comments[1].startswith("group: "):
        sys.exit(f"{path}: a story begins with a title, 'group: NAME' and three sentences, a comment line each")
    return {
        "name": path.stem,
        "title": comments[0],
        "group": comments[1].removeprefix("group: "),
        "text": " ".join(comments[2:]),
        "protocol": re.search(r"^protocol (\S+)", text, re.M).group(1),
        "nodes": int(re.search(r"^nodes (\d+)", text, re.M).group(1)),
        "scenario": text,
    }


def main():
    output, *scenarios = sys.argv[1:]
    told = [story(pathlib.Path(path)) for path in scenarios]
    order = list(dict.fromkeys(one["group"] for one in told))
    told.sort(key=lambda one: (order.index(one["group"]), one["name"]))
    pathlib.Path(output).write_text(json.dumps(told, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
