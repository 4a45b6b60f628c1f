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
    for file in files:
        shutil.copyfile(file, dist / pathlib.Path(file).name)
    pathlib.Path(stamp).write_text("", encoding="utf-8")


if __name__ == "__main__":
    main()
