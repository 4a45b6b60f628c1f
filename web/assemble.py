#!/usr/bin/env python3
"""web/assemble.py STAMP FILE... - copies the files of the page into the folder dist beside STAMP."""

import pathlib
import shutil
import sys


def main():
    stamp, *files = sys.argv[1:]
    dist = pathlib.Path(stamp).parent / "dist"
    shutil.rmtree(dist, ignore_errors=True)
    dist.mkdir()
    # A module without a modulepreload is loaded only when another one imports it: the page would start later.
    page = next(pathlib.Path(file) for file in files if file.endswith("index.html")).read_text(encoding="utf-8")
    for name in sorted(pathlib.Path(file).name for file in files if file.endswith(".js")):
        if f'"{name}"' not in page and name not in ("engine.js", "worker.js"):
            sys.exit(f"index.html has no modulepreload of {name}")
    for file in files:
        shutil.copyfile(file, dist / pathlib.Path(file).name)
    pathlib.Path(stamp).write_text("", encoding="utf-8")


if __name__ == "__main__":
    main()
