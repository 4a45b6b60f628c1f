"""bench/ports.py - ports of the loopback interface that are free now, for benches."""

import socket


def free_ports(count, kind=socket.SOCK_DGRAM):
    """Unused ports; all are opened before the first is closed, so that they differ."""
    sockets = [socket.socket(socket.AF_INET, kind) for _ in range(count)]
    for s in sockets:
        s.bind(("127.0.0.1", 0))
    found = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return found
