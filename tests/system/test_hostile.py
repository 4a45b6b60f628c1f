#!/usr/bin/env python3
"""tests/system/test_hostile.py CONCLAVE - attacks of other users on the commands fail.

Names in a store with control sequences for a terminal, secrets in the environment, a pipe in place of a key, a folder
in /tmp that another user has made, children of a program that becomes `conclave run`. Waits for conditions.
Prints TAP."""

import contextlib
import os
import pathlib
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from points import Skipped, await_value, run_points  # pylint: disable=wrong-import-position

CONCLAVE = os.path.abspath(sys.argv[1])
LIMIT = 30
WORK = tempfile.mkdtemp(prefix="conclave-test-")
STRANGER = 54321  # a user that need not exist
os.environ["XDG_RUNTIME_DIR"] = WORK
os.environ["CONCLAVE_STATE"] = WORK + "/state"


def wait_until(what, condition):
    value = await_value(condition, LIMIT, pause=0.005)
    assert value is not None, "never happened: " + what
    return value


def conclave(*words, **more):
    return subprocess.run([CONCLAVE, *words], capture_output=True, check=False, timeout=LIMIT, **more)


def names_from_a_store_do_not_reach_the_terminal_raw():
    via = f"sqlite:{WORK}/names.db"
    assert conclave("run", "job", "--via", via, "--", "true").returncode == 0
    evil = "a\x1b[2J\nb leads\x07\u009b31m\x7f\u00e9"
    with sqlite3.connect(WORK + "/names.db") as database:
        boot = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        database.execute("UPDATE conclave_election SET node = ?, label = 1, expires_ns = ?, "
                         "boot = CASE WHEN boot = '' THEN ? ELSE boot END", (evil, 1 << 62, boot))
        database.execute("UPDATE conclave_history SET node = ?", (evil,))
    database.close()
    seen = b"a\\x1b[2J\\x0ab leads\\x07\\xc2\\x9b31m\\x7f\xc3\xa9"
    waits = conclave("run", "job", "--via", via, "-n", "--verbose", "--", "true")
    for said in (conclave("status", "job", "--via", via).stdout,
                 conclave("status", "--via", via).stdout,
                 conclave("history", "job", "--via", via).stdout,
                 waits.stderr):
        assert seen in said, said
        assert not any(line.startswith(b"b leads") for line in said.splitlines()), said
        assert not any(byte in said for byte in (b"\x1b", b"\x07", b"\xc2\x9b", b"\x7f")), said
    with subprocess.Popen([CONCLAVE, "watch", "job", "--via", via], stdout=subprocess.PIPE) as watch:
        said = watch.stdout.readline()
        while seen not in said:
            assert b" leads" not in said and said, said  # at first no leader is known
            said = watch.stdout.readline()
        watch.kill()


def watch_and_elect_set_no_new_privileges():
    for verb in ("watch", "elect"):
        with subprocess.Popen([CONCLAVE, verb, "job", "--via", f"sqlite:{WORK}/rights.db"],
                              stdout=subprocess.DEVNULL) as process:
            try:
                status = pathlib.Path(f"/proc/{process.pid}/status")
                wait_until(verb, lambda: "\nNoNewPrivs:\t1\n" in status.read_text())
            finally:
                process.kill()


def the_command_does_not_inherit_secrets_of_the_store():
    secrets = {"CONCLAVE_ETCD_PASSWORD": "s1", "CONCLAVE_ZOOKEEPER_AUTH": "s2",
               "CONCLAVE_SNMP_COMMUNITY": "s3"}
    env = dict(os.environ, **secrets, PGPASSWORD="s4", OTHER="stays")
    via = f"sqlite:{WORK}/secrets.db"
    said = conclave("run", "job", "--via", via, "--on-elected", f"env >{WORK}/hook", "--", "env",
                    env=env).stdout.decode()
    assert not any(name in said for name in secrets), said
    assert "OTHER=stays\n" in said and "PGPASSWORD=s4\n" in said, said
    hook = pathlib.Path(WORK, "hook").read_text()
    assert "CONCLAVE_ROLE=MASTER\n" in hook and not any(name in hook for name in secrets), hook
    said = conclave("run", "job", "--via", via, "--keep-secrets", "--", "env", env=env).stdout.decode()
    assert all(f"{name}={value}\n" in said for name, value in secrets.items()), said


def a_mistyped_address_is_not_repeated_with_its_password():
    torn = ("postgres://ops:geheim/x@127.0.0.1/ops", "postgres://ops:1/geheim@127.0.0.1:1/ops",
            "postgres://ops:ge@heim@127.0.0.1:1/ops")  # libpq would take a part of the password for a database or a host
    for address in ("postgres:/ops:geheim@db/ops", "postgres://ops:ge%zzheim@db/ops",
                    "postgers://ops:geheim@db/ops", "postgres//ops:geheim@db/ops",
                    "postgres://ops:geheim/ops", "postgres://ops:geheim") + torn:
        for words in (("status", "job"), ("run", "job", "-n")):
            rest = ("--", "true") if words[0] == "run" else ()
            said = conclave(*words, "--via", address, *rest)
            assert said.returncode != 0 and b"heim" not in said.stderr, said.stderr
            if address in torn and b"not built in" not in said.stderr and b"module" not in said.stderr:
                assert b"a password in a postgres: address is refused" in said.stderr, said.stderr


def a_pipe_in_the_place_of_a_key_or_password_is_refused_at_once():
    os.mkfifo(WORK + "/key")
    said = conclave("elect", "job", "--via", f"multicast:239.192.0.77:7777?key={WORK}/key")
    assert said.returncode == 2 and b"is not a regular file" in said.stderr, said
    said = conclave("status", "job", "--via", f"etcd://ops@127.0.0.1:1?password-file={WORK}/key")
    if b"not built in" not in said.stderr and b"module" not in said.stderr:
        assert said.returncode == 2 and b"is not a regular file" in said.stderr, said


def a_folder_of_another_user_in_tmp_does_not_stop_us():
    if os.geteuid() != 0:
        raise Skipped("only root can be two users")
    squatted = f"/tmp/conclave-{STRANGER}"
    if os.path.lexists(squatted):
        raise Skipped(squatted + " is there")
    home = WORK + "/home"
    os.mkdir(home)
    os.chown(home, STRANGER, STRANGER)
    os.chmod(WORK, 0o755)
    os.mkdir(squatted, 0o755)  # it belongs to root, not to the stranger
    try:
        said = conclave("run", "job", "--", "sh", "-c", "echo $CONCLAVE_LEASE_FILE",
                        env={"HOME": home, "PATH": os.environ["PATH"]}, user=STRANGER, group=STRANGER,
                        extra_groups=[], cwd="/")
        assert said.returncode == 0, said
        assert said.stdout.decode().startswith(home + "/.local/state/conclave/run/run-"), said
    finally:
        os.rmdir(squatted)


class Users:
    """Users that need not exist, all of them in one group."""

    GROUP = 54300

    def __init__(self, count):
        if os.geteuid() != 0:
            raise Skipped("only root can be several users")
        os.chmod(WORK, 0o755)
        self.homes = [f"{WORK}/home{i}" for i in range(count)]
        for i, home in enumerate(self.homes):
            os.makedirs(home, exist_ok=True)
            os.chown(home, STRANGER + i, STRANGER + i)

    def setting(self, number, umask, in_group=True):
        return {"user": STRANGER + number, "group": STRANGER + number, "cwd": "/", "umask": umask,
                "extra_groups": [self.GROUP] if in_group else [],
                "env": {"HOME": self.homes[number], "PATH": os.environ["PATH"]}}

    def own(self, path, mode):
        os.chown(path, 0, self.GROUP)
        os.chmod(path, mode)

    def folder(self, name, mode):
        path = f"{WORK}/{name}"
        os.mkdir(path)
        self.own(path, mode)
        return f"{path}/elections.db"


def file_of_a_user_with_another_umask_is_repaired():
    """As docs/run.md describes; until then the error names the file that is in the way."""
    users = Users(2)
    path = users.folder("umask", 0o2770)
    job = ["run", "job", "-n", "--via", "sqlite:" + path, "--", "true"]
    made = conclave(*job, **users.setting(0, 0o022))
    assert made.returncode == 0, made
    for end, mode in (("", 0o660), ("-wal", 0o660), ("-shm", 0o660), (".alive", 0o2770)):
        refused = conclave(*job, **users.setting(1, 0o022))
        assert refused.returncode == 125 and f"'{path}{end}': Permission denied".encode() in refused.stderr, refused
        os.chmod(path + end, mode)
    repaired = conclave(*job, **users.setting(1, 0o022))
    assert repaired.returncode == 0, repaired


def two_users_of_a_group_share_a_file():
    users = Users(3)
    # As docs/run.md describes; the third user may only read.
    for mode, reads in ((0o2770, False), (0o2775, True)):
        umask = 0o007
        path = users.folder(f"jobs{mode:o}", mode)
        via = "sqlite:" + path
        if reads:  # created by the first user, and opened to all
            made = conclave("run", "other", "--via", via, "--", "true", **users.setting(0, umask))
            assert made.returncode == 0, made
            for end in ("", "-wal", "-shm"):
                with contextlib.suppress(FileNotFoundError):
                    os.chmod(path + end, 0o664)
        runs = []
        try:
            for i in range(2):
                runs.append(subprocess.Popen(
                    [CONCLAVE, "run", "job", "--via", via, "--node", f"n{i}", "--", "sleep", "1000"],
                    stderr=subprocess.PIPE, **users.setting(i, umask)))
                wait_until("it takes part", lambda: b"n%d" % i in conclave(
                    "status", "job", "--via", via, **users.setting(0, umask)).stdout)
            seen = conclave("status", "job", "--via", via, **users.setting(1, umask))
            assert b"n0 leads" in seen.stdout and b"waiting: n1" in seen.stdout, seen
            if reads:
                for verb in ("status", "history"):
                    seen = conclave(verb, "job", "--via", via, **users.setting(2, umask, in_group=False))
                    assert seen.returncode == 0 and b"n0" in seen.stdout, seen
            runs[0].kill()
            wait_until("the other leads", lambda: b"n1 leads" in conclave(
                "status", "job", "--via", via, **users.setting(0, umask)).stdout)
        finally:
            for run in runs:
                run.kill()
                run.communicate()


def children_from_before_the_start_outlive_the_guard():
    """A shell started many of them, and became `conclave run` by exec."""
    script = f'for i in $(seq 80); do sleep 1000 </dev/null >/dev/null 2>&1 & echo $! >>{WORK}/sleeps; done; ' \
             f'exec "{CONCLAVE}" run many --via sqlite:{WORK}/many.db -- sh -c "echo \\$PPID >{WORK}/guard; read x"'
    with subprocess.Popen(["sh", "-c", script], stdin=subprocess.PIPE, stderr=subprocess.PIPE) as run:
        guard = int(wait_until("the command runs", lambda: os.path.exists(WORK + "/guard") and
                               pathlib.Path(WORK, "guard").read_text().strip()))
        sleeps = [int(pid) for pid in pathlib.Path(WORK, "sleeps").read_text().split()]
        assert len(sleeps) == 80
        os.kill(guard, signal.SIGKILL)
        assert run.wait(LIMIT) == 125
    dead = [pid for pid in sleeps if not os.path.exists(f"/proc/{pid}")]
    for pid in set(sleeps) - set(dead):
        os.kill(pid, signal.SIGKILL)
    assert not dead, f"{len(dead)} of 80 were killed with the guard"


def main():
    status = run_points([(name, value) for name, value in globals().items()
                         if callable(value) and name.count("_") > 2
                         and getattr(value, "__module__", "") == "__main__"
                         and os.environ.get("CV_TEST_ONLY", "") in name])
    shutil.rmtree(WORK, ignore_errors=True)
    return status


if __name__ == "__main__":
    sys.exit(main())
