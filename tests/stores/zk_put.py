#!/usr/bin/env python3
"""zk_put.py HOST:PORT PATH... - creates plain, persistent nodes in ZooKeeper, like those in a copy of a tree. Speaks
only the part of the protocol that this needs: connecting, and create."""

import socket
import struct
import sys


def text(value):
    return struct.pack(">i", len(value)) + value


def say(connection, body):
    connection.sendall(struct.pack(">i", len(body)) + body)
    size = struct.unpack(">i", connection.recv(4, socket.MSG_WAITALL))[0]
    return connection.recv(size, socket.MSG_WAITALL)


def main(where, *paths):
    host, port = where.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        say(connection, struct.pack(">iqiq", 0, 0, 10000, 0) + text(bytes(16)))
        for number, path in enumerate(paths, 1):
            anyone = struct.pack(">ii", 1, 31) + text(b"world") + text(b"anyone")
            answer = say(connection, struct.pack(">ii", number, 1) + text(path.encode()) + text(b"x")
                         + anyone + struct.pack(">i", 0))
            error = struct.unpack(">iqi", answer[:16])[2]
            if error not in (0, -110):  # the node may exist
                sys.exit(f"cannot make {path}: error {error}")


main(*sys.argv[1:])
