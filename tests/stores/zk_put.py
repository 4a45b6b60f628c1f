#!/usr/bin/env python3
"""zk_put.py HOST:PORT PATH... - creates plain, persistent nodes in ZooKeeper, like those in a copy of a tree.
zk_put.py HOST:PORT --remove PARENT PART - removes the one child of a node whose name contains PART.
Speaks only the part of the protocol that this needs: connecting, create, delete and getChildren."""

import socket
import struct
import sys


def text(value):
    return struct.pack(">i", len(value)) + value


def say(connection, body):
    connection.sendall(struct.pack(">i", len(body)) + body)
    size = struct.unpack(">i", connection.recv(4, socket.MSG_WAITALL))[0]
    return connection.recv(size, socket.MSG_WAITALL)


def texts(body):
    count, at, found = struct.unpack(">i", body[:4])[0], 4, []
    for _ in range(count):
        size = struct.unpack(">i", body[at:at + 4])[0]
        found.append(body[at + 4:at + 4 + size].decode())
        at += 4 + size
    return found


def remove(connection, parent, part):
    answer = say(connection, struct.pack(">ii", 1, 8) + text(parent.encode()) + b"\0")
    names = [name for name in texts(answer[16:]) if part in name]
    if len(names) != 1:
        sys.exit(f"{len(names)} children of {parent} contain {part}")
    answer = say(connection, struct.pack(">ii", 2, 2) + text(f"{parent}/{names[0]}".encode()) + struct.pack(">i", -1))
    error = struct.unpack(">iqi", answer[:16])[2]
    if error != 0:
        sys.exit(f"cannot remove {names[0]}: error {error}")


def main(where, *paths):
    host, port = where.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        say(connection, struct.pack(">iqiq", 0, 0, 10000, 0) + text(bytes(16)))
        if paths[0] == "--remove":
            remove(connection, *paths[1:])
            return
        for number, path in enumerate(paths, 1):
            anyone = struct.pack(">ii", 1, 31) + text(b"world") + text(b"anyone")
            answer = say(connection, struct.pack(">ii", number, 1) + text(path.encode()) + text(b"x")
                         + anyone + struct.pack(">i", 0))
            error = struct.unpack(">iqi", answer[:16])[2]
            if error not in (0, -110):  # the node may exist
                sys.exit(f"cannot make {path}: error {error}")


main(*sys.argv[1:])
