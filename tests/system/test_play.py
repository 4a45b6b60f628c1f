#!/usr/bin/env python3
"""`conclave play`: which files it serves, to which clients, and how it ends.

Needs CONCLAVE. The page is a folder of two files here; tests/web looks at the real one."""

import http.client
import os
import pathlib
import signal
import subprocess
import tempfile
import unittest


CONCLAVE = os.environ["CONCLAVE"]


class Play(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "web").mkdir()
        (self.folder / "web/index.html").write_text("<p>page", encoding="utf-8")
        (self.folder / "web/conclave.wasm").write_bytes(b"\0asm")
        (self.folder / "secret").write_text("secret", encoding="utf-8")
        self.env = {**os.environ, "CONCLAVE_WEB": str(self.folder / "web")}

    def play(self, *args):
        server = subprocess.Popen([CONCLAVE, "play", *args], env=self.env, stdout=subprocess.PIPE,
                                  stderr=subprocess.DEVNULL, text=True)
        self.addCleanup(server.stdout.close)
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)
        address = server.stdout.readline().strip()
        self.assertRegex(address, r"^http://127\.0\.0\.1:\d+/")
        self.port = int(address.split(":")[2].split("/")[0])
        return server, address

    def ask(self, path, method="GET", host=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.putrequest(method, path, skip_host=True)
        connection.putheader("Host", host or f"127.0.0.1:{self.port}")
        connection.endheaders()
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        return answer.status, answer.getheader("Content-Type"), body

    def test_serves_the_page_and_ends_with_an_interrupt(self):
        server, address = self.play()
        self.assertTrue(address.endswith("/"))
        self.assertEqual(self.ask("/"), (200, "text/html; charset=utf-8", b"<p>page"))
        self.assertEqual(self.ask("/?file=x"), (200, "text/html; charset=utf-8", b"<p>page"))
        self.assertEqual(self.ask("/conclave.wasm"), (200, "application/wasm", b"\0asm"))
        self.assertEqual(self.ask("/conclave.wasm", "HEAD")[2], b"")
        server.send_signal(signal.SIGINT)
        self.assertEqual(server.wait(60), 0)

    def test_nothing_outside_its_folder_is_served(self):
        self.play()
        for path in ("/../secret", "/%2e%2e/secret", "//secret", "/.hidden", "/web", "/file", "/nothing", "/a/../../secret"):
            self.assertEqual(self.ask(path)[0], 404, path)
        self.assertEqual(self.ask("/", "POST")[0], 405)
        self.assertEqual(self.ask("/", host="evil.example")[0], 403)
        self.assertEqual(self.ask("/", host=f"localhost:{self.port}")[0], 200)

    def test_a_file_is_served_under_one_name(self):
        trace = self.folder / "my run.trace"
        trace.write_text("{}\n", encoding="utf-8")
        _, address = self.play(str(trace))
        self.assertTrue(address.endswith("/?file=my%20run.trace"), address)
        self.assertEqual(self.ask("/file")[2], b"{}\n")

    def test_several_files_have_a_name_each(self):
        for name in ("a.trace", "b.trace"):
            (self.folder / name).write_text(name, encoding="utf-8")
        _, address = self.play(str(self.folder / "a.trace"), str(self.folder / "b.trace"))
        self.assertTrue(address.endswith("/?file=a.trace&file=b.trace"), address)
        self.assertEqual([self.ask(f"/{name}")[2] for name in ("file", "file-2")], [b"a.trace", b"b.trace"])
        self.assertEqual(self.ask("/file-3")[0], 404)

    def test_a_request_without_an_end_is_refused_and_others_are_served(self):
        self.play()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.connect()
        connection.sock.sendall(b"GET /" + b"x" * 9000)
        self.assertIn(b" 431 ", connection.sock.recv(100))
        connection.close()
        idle = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        idle.connect()
        self.assertEqual(self.ask("/")[0], 200)
        idle.close()

    def test_a_file_that_cannot_be_shown_is_reported(self):
        def fails(*args, **env):
            done = subprocess.run([CONCLAVE, "play", *args], env={**self.env, **env}, capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, 2, done.stderr)
            return done.stderr
        self.assertIn("cannot read", fails(str(self.folder / "nothing")))
        self.assertIn("cannot read 'b'", fails(str(self.folder / "secret"), "b"))
        self.assertIn("make web", fails(CONCLAVE_WEB=str(self.folder)))
        self.assertIn("--port", fails("--port", "70000"))


if __name__ == "__main__":
    unittest.main(verbosity=0)
