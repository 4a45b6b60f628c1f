#!/usr/bin/env python3
"""tests/system/test_silent.py CONCLAVE - commands end when a server of PostgreSQL stops answering.

The server is a small one of our own, on the loopback interface: it stops answering at a chosen point of a connection."""

import json
import os
import pathlib
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from points import await_value  # pylint: disable=wrong-import-position

LIMIT = 90  # seconds; only a failure takes so long
SSL_REQUEST, GSS_REQUEST = 80877103, 80877104  # PostgreSQL's manual, "Message Formats"
GREETING = [b"7", b"public.", b"'public.conclave_token'", b"1", b"1"]  # src/stores/pg_link.c


class Failure(Exception):
    pass


def message(kind, body):
    return kind + struct.pack("!I", len(body) + 4) + body


def answer_of(*rows):
    """Rows of text, and that the query is over."""
    count = struct.pack("!h", len(rows[0]))
    columns = b"".join(b"c\0" + struct.pack("!IhIhih", 0, 0, 25, -1, -1, 0) for _ in rows[0])
    data = b"".join(message(b"D", count + b"".join(struct.pack("!I", len(value)) + value for value in row)) for row in rows)
    return message(b"T", count + columns) + data + message(b"C", b"SELECT 1\0") + message(b"Z", b"I")


class Server:
    """Answers so many queries of each connection; -1: it does not even let anybody in. If it has elections, it also answers
    the question for their names."""

    def __init__(self, answer_count, elections=()):
        self.answer_count = answer_count
        self.elections = elections
        self.connection_count = 0
        self.queries = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"postgres://nobody@127.0.0.1:{self.listener.getsockname()[1]}/db?gssencmode=disable"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            connection, _ = self.listener.accept()
            self.connection_count += 1
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        stream = connection.makefile("rb")
        try:
            code = SSL_REQUEST
            while code in (SSL_REQUEST, GSS_REQUEST):
                length, code = struct.unpack("!II", stream.read(8))
                stream.read(length - 8)
                if code in (SSL_REQUEST, GSS_REQUEST):
                    connection.sendall(b"N")
            if self.answer_count >= 0:
                connection.sendall(message(b"R", struct.pack("!I", 0)) + message(b"S", b"server_version\x0015.0\0") +
                                   message(b"K", struct.pack("!II", 7, 1)) + message(b"Z", b"I"))
            left = self.answer_count
            while True:
                kind, length = struct.unpack("!cI", stream.read(5))
                body = stream.read(length - 4)
                if kind == b"Q":
                    self.queries.append(body)
                    if self.elections and b"SELECT election FROM" in body:
                        connection.sendall(answer_of(*([name] for name in self.elections)))
                    elif left > 0:
                        left -= 1
                        connection.sendall(answer_of(GREETING))
        except (OSError, struct.error):  # the client is gone
            connection.close()


class Stage:
    def __init__(self, program):
        self.program = program
        self.folder = tempfile.mkdtemp(prefix="conclave-silent-")
        self.processes = []

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.communicate()
        shutil.rmtree(self.folder, ignore_errors=True)

    def start(self, *arguments):
        process = subprocess.Popen([self.program, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, env=dict(os.environ, CONCLAVE_STATE=self.folder))
        self.processes.append(process)
        return process


def end_of(process):
    """Status, output and errors."""
    try:
        output, errors = process.communicate(timeout=LIMIT)
    except subprocess.TimeoutExpired as late:
        raise Failure(f"it does not end: {' '.join(process.args[1:])}") from late
    return process.returncode, output, errors


def commands_end_though_the_server_stops_answering(stage):
    begun = []
    for answer_count in (-1, 0, 1):
        server = Server(answer_count)
        for command in (["status"], ["history", "x"], ["store", "init"]):
            begun.append((answer_count, stage.start(*command, "--via", server.address)))
    for answer_count, process in begun:
        status, output, errors = end_of(process)
        wanted = ", does not answer" if answer_count < 0 else f"no answer from the postgres: store within " \
            f"{30 if 'init' in process.args else 5} s"
        if status != 2 or output or len(errors.splitlines()) != 1 or wanted not in errors:
            raise Failure(f"{answer_count} answers: {process.args[1:]}: {status} '{output}' '{errors}'")


def an_interrupted_watcher_asks_no_more(stage):
    """It ends before it would try once more, or open the election. One at a time: after 5 s it would do that."""
    for answer_count in (-1, 1):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            server = Server(answer_count)
            process = stage.start("watch", "x", "--via", server.address)
            if await_value(lambda server=server: server.connection_count > 0 and
                           (server.answer_count < 0 or len(server.queries) > 1), LIMIT) is None:
                raise Failure("it asks nothing")
            process.send_signal(number)
            status, output, errors = end_of(process)
            if status != 0 or output or errors or server.connection_count != 1:
                raise Failure(f"{number}: {server.connection_count} connections, {status} '{output}' '{errors}'")


def forget_does_not_ask_again_a_server_that_does_not_answer(stage):
    """It asks for similar names first."""
    begun = []
    for answer_count in (-1, 0, 1):
        server = Server(answer_count)
        begun.append((server, stage.start("forget", "x", "--via", server.address)))
    for server, process in begun:
        status, output, errors = end_of(process)
        if status != 2 or output or len(errors.splitlines()) != 1 or server.connection_count != 1:
            raise Failure(f"{server.answer_count} answers: {server.connection_count} connections, {status} '{errors}'")


def a_list_asks_for_no_more_elections_when_the_server_falls_silent(stage):
    elections = (b"one", b"three", b"two")
    wanted = {
        "text": (["status"], "", ["conclave: one: PostgreSQL: no answer in time",
                                  "conclave: 2 more elections were not asked for, because the store does not answer any more"]),
        "json": (["status", "--json"], "one three two", []),
    }
    begun = []
    for name, (command, _, _) in wanted.items():
        server = Server(1, elections)
        begun.append((name, server, stage.start(*command, "--via", server.address)))
    for name, server, process in begun:
        status, output, errors = end_of(process)
        _, names, lines = wanted[name]
        if status != 2 or " ".join(json.loads(line)["election"] for line in output.splitlines()) != names:
            raise Failure(f"{name}: {status} '{output}' '{errors}'")
        if lines and errors.splitlines() != lines or server.connection_count != 2:
            raise Failure(f"{name}: {server.connection_count} connections, '{errors}'")


TESTS = [commands_end_though_the_server_stops_answering, forget_does_not_ask_again_a_server_that_does_not_answer,
         a_list_asks_for_no_more_elections_when_the_server_falls_silent, an_interrupted_watcher_asks_no_more]


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    program = str(pathlib.Path(sys.argv[1]).resolve())
    failed = 0
    for number, test in enumerate(TESTS, 1):
        name = test.__name__.replace("_", " ")
        try:
            with Stage(program) as stage:
                test(stage)
            print(f"ok {number} - {name}", flush=True)
        except Failure as failure:
            failed += 1
            print(f"not ok {number} - {name}", flush=True)
            print(f"# {failure}", flush=True)
    print(f"1..{len(TESTS)}", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
