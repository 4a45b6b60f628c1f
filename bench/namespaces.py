"""bench/namespaces.py - hosts of a small network on one machine: namespaces behind a bridge, for benches.

The bridge is in a namespace of its own, so nothing changes in the machine's network. As root."""

import ctypes
import fcntl
import os
import socket
import struct
import subprocess

SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 1
CLONE_NEWNET = 0x40000000


def ip(*words, check=True):
    return subprocess.run(["ip", *words], check=check, capture_output=True, text=True).stdout


def socket_in(space):
    """A socket in that namespace, for this process."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open("/proc/self/ns/net") as here, open(f"/run/netns/{space}") as there:
        if libc.setns(there.fileno(), CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), "setns")
        try:
            return socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        finally:
            if libc.setns(here.fileno(), CLONE_NEWNET) != 0:
                raise OSError(ctypes.get_errno(), "setns")


class Network:
    """Host i has the address 10.78.0.(i + 1) at eth0, and port pI of the bridge."""

    def __init__(self, count):
        base = f"conclave-bench-{os.getpid()}-"
        self.hub, self.spaces = base + "hub", [base + str(i) for i in range(count)]
        try:
            for space in [self.hub, *self.spaces]:
                ip("netns", "add", space)
                ip("-n", space, "link", "set", "lo", "up")
            ip("-n", self.hub, "link", "add", "br0", "type", "bridge", "stp_state", "0", "forward_delay", "0")
            ip("-n", self.hub, "link", "set", "br0", "up")
            for i, space in enumerate(self.spaces):
                ip("-n", self.hub, "link", "add", f"p{i}", "type", "veth", "peer", "name", "eth0", "netns", space)
                ip("-n", self.hub, "link", "set", f"p{i}", "master", "br0", "up")
                ip("-n", space, "addr", "add", f"{self.address(i)}/24", "dev", "eth0")
                ip("-n", space, "link", "set", "eth0", "address", self.station(i), "up")
            for i, space in enumerate(self.spaces):  # fixed neighbours: finding them again would take a second after each cut
                for j in range(count):
                    if i != j:
                        ip("-n", space, "neigh", "replace", self.address(j), "lladdr", self.station(j), "dev", "eth0",
                           "nud", "permanent")
            self.socket = socket_in(self.hub)
        except (subprocess.CalledProcessError, OSError):
            self.close()
            raise

    @staticmethod
    def address(i):
        return f"10.78.0.{i + 1}"

    @staticmethod
    def station(i):
        return f"02:00:00:00:00:{i + 1:02x}"

    def inside(self, i):
        """The words that a command on that host begins with."""
        return ["ip", "netns", "exec", self.spaces[i]]

    def plug(self, i, is_in):
        """Takes the host's port of the bridge down, or up again: one system call, in microseconds."""
        name = f"p{i}".encode()
        flags = struct.unpack("16xH", fcntl.ioctl(self.socket, SIOCGIFFLAGS, struct.pack("16sH22x", name, 0))[:18])[0]
        flags = flags | IFF_UP if is_in else flags & ~IFF_UP
        fcntl.ioctl(self.socket, SIOCSIFFLAGS, struct.pack("16sH22x", name, flags))

    def close(self):
        for space in [*self.spaces, self.hub]:
            ip("netns", "del", space, check=False)
