#!/usr/bin/env python3
"""bindings/python/test_conclave.py - the Python binding against the real library and a real file.

Speaks TAP. CONCLAVE_LIBRARY names the library. No test waits for a fixed time."""

import asyncio
import copy
import gc
import os
import pathlib
import pickle
import re
import select
import subprocess
import sys
import tempfile
import threading
import traceback

sys.dont_write_bytecode = True
import conclave  # pylint: disable=wrong-import-position

LIMIT = 60  # seconds, on a busy machine; everything here takes milliseconds


def address(folder):
    return f"sqlite:{folder}/elections.db"


def run(folder, program, meanwhile=lambda: None):
    """Runs a program for Python, whose stdin ends after meanwhile(); returns what it wrote to stderr."""
    with subprocess.Popen([sys.executable, "-W", "always::ResourceWarning", "-c", program, address(folder)],
                          stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          env=dict(os.environ, PYTHONPATH=os.path.dirname(conclave.__file__))) as child:
        try:
            meanwhile()
            _, told = child.communicate(timeout=2 * LIMIT)
        finally:
            child.kill()
    assert child.returncode == 0, (child.returncode, told)
    return told


def leads_and_hands_over(folder):
    with conclave.Election("job", address(folder), node="a") as a:
        assert a.wait(LIMIT)
        first = a.leads()
        assert first.token >= 1 and 0 < first.left <= 5
        assert a.is_leader and a.status().role is conclave.Role.LEADER
        with conclave.Election("job", address(folder), node="b") as b:
            assert b.wait_leader(LIMIT) and b.status().leader == "a"
            assert not b.wait(0) and b.leads() is None
            a.resign("b")
            assert b.wait(LIMIT)
            assert b.leads().token > first.token
            assert a.wait_lost(LIMIT) and a.status().reason == "resigned"


def a_resign_request_is_seen_by_the_leader(folder):
    with conclave.Election("job", address(folder), node="a") as a, \
            conclave.Election("job", address(folder), node="b") as b:
        assert a.wait_leader(LIMIT) and b.wait_leader(LIMIT)
        leader, other = (a, b) if a.is_leader else (b, a)
        name = other.status().node
        other.request_resign(name)
        seen = threading.Event()
        while not (status := leader.status()).is_resign_requested:
            seen.wait(0.01)
        assert status.heir == name


def many_elections_share_an_engine(folder):
    with conclave.Engine() as engine:
        elections = [conclave.Election(f"shard-{i}", address(folder), engine=engine) for i in range(50)]
        assert all(e.wait(LIMIT) for e in elections)
        for election in elections:
            election.close()


def an_engine_with_open_elections_is_not_closed(folder):
    def closes(engine):
        try:
            engine.close()
        except conclave.Error as error:
            assert error.code == -7001
            return str(error)
        return None

    with conclave.Engine() as engine:
        with conclave.Election("a", address(folder), engine=engine) as a:
            with conclave.Election("b", address(folder), engine=engine):
                assert closes(engine) == "cannot close the engine: 2 elections are still open"
            assert closes(engine) == "cannot close the engine: an election is still open"
            assert a.wait(LIMIT)
            try:
                conclave.Election("", address(folder), engine=engine)
            except conclave.Error:
                pass  # it does not count
    engine.close()  # once more does no harm
    try:
        conclave.Election("a", address(folder), engine=engine)
        assert False, "an election was opened in a closed engine"
    except ValueError as error:
        assert str(error) == "cannot open the election 'a': the engine is closed"


def an_engine_does_not_hide_the_exception_that_ends_its_block(folder):
    try:
        with conclave.Engine() as engine:
            a = conclave.Election("a", address(folder), engine=engine)
            raise KeyError("of the application")
    except KeyError:
        pass
    a.close()
    engine.close()


def changes_can_be_awaited(folder):
    async def follow():
        async with conclave.Election("job", address(folder), node="a") as a:
            async for status in a.changes():
                if status.role is conclave.Role.LEADER:
                    a.resign()
                if status.reason == "resigned":
                    return status
        return None

    status = asyncio.run(asyncio.wait_for(follow(), LIMIT))
    assert status.role is not conclave.Role.LEADER


def several_may_await_changes(folder):
    """Each of them sees each change, even if somebody else asks for the status first."""
    async def follow(election, reasons):
        async for status in election.changes():
            reasons.append(status.reason)
            if status.reason == "resigned":
                return

    async def together():
        async with conclave.Election("job", address(folder), node="a") as a:
            seen = [[], []]
            tasks = [asyncio.ensure_future(follow(a, reasons)) for reasons in seen]
            while not all(seen) or not a.leads():
                await asyncio.sleep(0)
            a.resign()
            while a.status().reason != "resigned":
                pass  # the loop does not run meanwhile
            await asyncio.gather(*tasks)

    asyncio.run(asyncio.wait_for(together(), LIMIT))


def changes_end_when_the_election_is_closed(folder):
    async def note_roles(election, roles):
        async for status in election.changes():
            roles.append(status.role)

    async def close_one():
        a = conclave.Election("job", address(folder), node="a")
        roles, others = [], []
        task = asyncio.ensure_future(note_roles(a, roles))
        while conclave.Role.LEADER not in roles:
            await asyncio.sleep(0)
        a.close()
        async with conclave.Election("other", address(folder), node="b") as b:  # may have a's descriptor
            other = asyncio.ensure_future(note_roles(b, others))
            await task
            while conclave.Role.LEADER not in others:
                await asyncio.sleep(0)
        await other

    asyncio.run(asyncio.wait_for(close_one(), LIMIT))


def a_slow_reader_does_not_keep_the_loop_busy(folder):
    """A change that nobody has asked for yet wakes the loop once, not again and again."""
    async def watch():
        loop = asyncio.get_running_loop()
        calls = 0
        add = loop.add_reader

        def counted(descriptor, callback):
            def call():
                nonlocal calls
                calls += 1
                callback()
            add(descriptor, call)

        loop.add_reader = counted
        async with conclave.Election("job", address(folder), node="a") as a:
            async for status in a.changes():
                if status.role is conclave.Role.LEADER:
                    break
            follower = a.changes()
            await follower.__anext__()
            task = asyncio.ensure_future(follower.__anext__())
            await asyncio.sleep(0)
            a.campaign(False)
            await task
            a.status()
            before = calls
            a.campaign(True)
            assert select.select([a.fileno()], [], [], LIMIT)[0]
            for _ in range(1000):  # turns of the loop
                await asyncio.sleep(0)
            assert calls - before <= 1, calls - before
            await follower.aclose()

    asyncio.run(asyncio.wait_for(watch(), LIMIT))


def the_log_tells_who_was_elected(folder):
    lines = []
    with conclave.Election("job", address(folder), node="a",
                           log=lambda level, line: lines.append((level, line))) as a:
        assert a.wait(LIMIT)
    assert any(level >= 1 for level, _ in lines), lines


def mistakes_are_told(folder):
    for arguments in (("",), ("job", "redis://x"), ("job", address(folder) + "/no/such/folder")):
        try:
            conclave.Election(*arguments)
            assert False, f"{arguments} was accepted"
        except conclave.Error as error:
            assert str(error) and "\n" not in str(error)
    for wrong in (lambda: conclave.Election("a\0b"), lambda: conclave.Election("job", lease=-1)):
        try:
            wrong()
            assert False
        except ValueError:
            pass
    try:
        conclave.Election("job", address(folder), lease="5s")
        assert False
    except TypeError as error:
        assert str(error) == "the lease must be a number of seconds, not '5s'"
    with conclave.Election("job", address(folder)) as a:
        try:
            a.report("speed", 1)
            assert False
        except ValueError as error:
            assert "request-rate" in str(error)
    try:
        a.status()
        assert False, "a closed election answered"
    except ValueError:
        pass
    a.close()  # once more does no harm
    engine = conclave.Engine()
    engine.close()
    for closed in (a, engine):
        try:
            with closed:
                assert False, "the block of something closed was entered"
        except ValueError as error:
            assert str(error) == f"the {type(closed).__name__.lower()} is closed"
    try:
        asyncio.run(a.__aenter__())
        assert False, "and that of asyncio"
    except ValueError:
        pass


def a_missing_library_is_told(_):
    child = subprocess.run([sys.executable, "-c", "import conclave"], capture_output=True, text=True, check=False,
                           env=dict(os.environ, PYTHONPATH=os.path.dirname(conclave.__file__), CONCLAVE_LIBRARY="absent.so"))
    last = child.stderr.splitlines()[-1]
    assert last.startswith("ImportError: absent.so: ") and "set CONCLAVE_LIBRARY" in last, child.stderr


def a_killed_leader_is_replaced(folder):
    program = ("import conclave, sys\n"
               f"e = conclave.Election('job', {address(folder)!r}, node='child')\n"
               "e.wait()\nprint('leads', flush=True)\nsys.stdin.read()\n")
    child = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, text=True,
                             env=dict(os.environ, PYTHONPATH=os.path.dirname(conclave.__file__)))
    assert child.stdout.readline() == "leads\n"
    with conclave.Election("job", address(folder), node="a") as a:
        assert a.wait_leader(LIMIT) and a.status().leader == "child"
        child.kill()
        child.wait()
        assert a.wait(LIMIT)


# A program that is told the address. Its Worker refers to an election whose log function refers to it.
WORKER = """
import conclave, gc, os, sys, threading, time
class Worker:
    def __init__(self, engine=None):
        self.engine = engine
        self.election = conclave.Election("job", sys.argv[1], node="dropped", engine=engine, log=self.log)
        assert self.election.wait(60)
    def log(self, level, line):
        pass
"""


# A thread of it waits in an election, because another one leads.
WAITER = """
import conclave, os, signal, sys, threading
a = conclave.Election("job", sys.argv[1])
assert a.wait(60)
b = conclave.Election("job", sys.argv[1])
waits, wait = threading.Event(), conclave._lib.cv_wait
def tell(*arguments):
    waits.set()
    return wait(*arguments)
conclave._lib.cv_wait = tell
threading.Thread(target=b.wait, daemon=True).start()
waits.wait()
"""


def a_dropped_election_is_closed(folder):
    told = run(folder, WORKER + """
with conclave.Election("job", sys.argv[1], observer=True) as other:
    worker = Worker()
    assert other.wait_leader(60)
    del worker
    gc.collect()
    other.campaign()
    assert other.wait(60) and other.status().last_reason == "resigned", other.status()
""")
    assert "ResourceWarning: the election 'job' was dropped without close()" in told, told


def an_engine_dropped_with_its_elections_ends(folder):
    told = run(folder, WORKER + """
def thread_count():
    return len(os.listdir("/proc/self/task"))
with conclave.Election("first", sys.argv[1]) as first:
    first.wait()  # the threads that all engines share run from now on
before = thread_count()
for _ in range(3):
    Worker(conclave.Engine())
    gc.collect()
limit = time.monotonic() + 60
while thread_count() > before:  # a thread may be listed for a moment after it was joined
    assert time.monotonic() < limit, (before, thread_count())
""")
    assert told.count("ResourceWarning: an engine was dropped without close()") == 3, told


def an_election_cannot_be_copied(folder):
    with conclave.Engine() as engine, conclave.Election("job", address(folder), engine=engine) as a:
        assert a.wait(LIMIT)
        for each in (a, engine):
            for make in (copy.copy, copy.deepcopy, pickle.dumps):
                try:
                    make(each)
                except TypeError as error:
                    assert "cannot be copied" in str(error), error
                else:
                    raise AssertionError(make)
        gc.collect()
        assert a.leads()


def an_open_election_is_closed_at_exit(folder):
    with conclave.Election("job", address(folder), observer=True) as a:
        told = run(folder, WORKER + "conclave.kept = Worker(conclave.Engine())\nsys.stdin.read()\n",
                   meanwhile=lambda: a.wait_leader(LIMIT))
        assert not told, told
        a.campaign()
        assert a.wait(LIMIT) and a.status().last_reason == "resigned", a.status()


def a_forked_child_does_not_end_what_its_parent_leads(folder):
    run(folder, WORKER + """
worker = Worker(conclave.Engine())
token = worker.election.leads().token
child = os.fork()
if child == 0:
    try:
        worker.election.leads()
    except ValueError:  # closed
        del worker
        sys.exit(0)
    sys.exit("an election of the parent answered")
assert os.waitpid(child, 0)[1] == 0
assert worker.election.leads().token == token
""")


def a_forked_child_does_not_wait_for_threads_of_its_parent(folder):
    run(folder, WAITER + """
child = os.fork()
if child == 0:
    signal.alarm(60)  # ends it if it waits for ever
    b.close()
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
""")


def close_waits_for_the_calls_of_other_threads(folder):
    wait, close = conclave._lib.cv_wait, conclave._lib.cv_close
    is_inside, inside, was_inside, told = threading.Event(), [], [], []

    def counted_wait(*arguments):
        inside.append(0)
        is_inside.set()
        try:
            return wait(*arguments)
        finally:
            inside.pop()

    def checked_close(pointer):
        was_inside.append(len(inside))
        close(pointer)

    def wait_to_lead(election):
        try:
            election.wait()
        except ValueError as error:
            told.append(str(error))

    with conclave.Election("job", address(folder)) as a:
        assert a.wait(LIMIT)
        b = conclave.Election("job", address(folder))
        conclave._lib.cv_wait, conclave._lib.cv_close = counted_wait, checked_close
        try:
            threads = [threading.Thread(target=wait_to_lead, args=(b,), daemon=True) for _ in range(3)]
            for thread in threads:
                thread.start()
            is_inside.wait(LIMIT)
            b.close()
            for thread in threads:
                thread.join(LIMIT)
        finally:
            conclave._lib.cv_wait, conclave._lib.cv_close = wait, close
    assert was_inside == [0], was_inside
    assert told == ["the election is closed"] * 3, told


def threads_may_use_an_election_while_it_is_closed(folder):
    run(folder, """
import conclave, sys, threading
def use(election, used):
    try:
        while True:
            election.leads(), election.status(), election.wait(0), election.campaign(), election.fileno()
            used.set()
    except ValueError:  # closed
        pass
for _ in range(30):
    election, used = conclave.Election("job", sys.argv[1]), threading.Event()
    threads = [threading.Thread(target=use, args=(election, used)) for _ in range(4)]
    for thread in threads:
        thread.start()
    used.wait()
    closers = [threading.Thread(target=election.close) for _ in range(2)]
    for thread in closers:
        thread.start()
    for thread in threads + closers:
        thread.join()
""")


def a_daemon_thread_that_waits_ends_quietly_at_exit(folder):
    assert not run(folder, WAITER)


def a_signal_handler_may_close_the_election_it_interrupts(folder):
    with conclave.Election("job", address(folder)) as a:
        assert a.wait(LIMIT)
        run(folder, """
import conclave, signal, sys
signal.signal(signal.SIGALRM, lambda *_: election.close())
for use in [lambda: election.wait()] * 3 + [lambda: election.status()] * 20:
    election = conclave.Election("job", sys.argv[1])
    signal.setitimer(signal.ITIMER_REAL, 0.01)
    try:
        while True:
            use()
    except ValueError:  # closed
        pass
""")


def the_structs_are_those_of_the_header(_):
    """Fields in the header's order: a field that is added there must be added here."""
    root = pathlib.Path(__file__).resolve().parent.parent.parent
    header = (root / "include/conclave/election.h").read_text(encoding="utf-8")
    header = re.sub(r"/\*.*?\*/", "", header, flags=re.DOTALL)
    for struct, mirror in (("cv_election_options", conclave._Options),
                           ("cv_election_status", conclave._Status)):
        body = re.search(rf"struct {struct} \{{(.*?)\n\}};", header, re.DOTALL)[1]
        names = re.findall(r"(\w+)(?:\[\w+\])?;|\(\*(\w+)\)\(", body)
        fields = [a or b for a, b in names]
        assert fields == [name for name, *_ in mirror._fields_], (fields, mirror._fields_)


TESTS = [leads_and_hands_over, a_resign_request_is_seen_by_the_leader, many_elections_share_an_engine,
         an_engine_with_open_elections_is_not_closed, an_engine_does_not_hide_the_exception_that_ends_its_block,
         changes_can_be_awaited, several_may_await_changes, changes_end_when_the_election_is_closed,
         a_slow_reader_does_not_keep_the_loop_busy, the_log_tells_who_was_elected, mistakes_are_told,
         a_missing_library_is_told, a_killed_leader_is_replaced,
         a_dropped_election_is_closed, an_engine_dropped_with_its_elections_ends, an_election_cannot_be_copied,
         an_open_election_is_closed_at_exit, a_forked_child_does_not_end_what_its_parent_leads,
         a_forked_child_does_not_wait_for_threads_of_its_parent,
         close_waits_for_the_calls_of_other_threads, threads_may_use_an_election_while_it_is_closed,
         a_daemon_thread_that_waits_ends_quietly_at_exit, a_signal_handler_may_close_the_election_it_interrupts,
         the_structs_are_those_of_the_header]


def main():
    print(f"1..{len(TESTS)}")
    failed = 0
    for number, test in enumerate(TESTS, 1):
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o700)
            try:
                test(folder)
                print(f"ok {number} - {test.__name__}", flush=True)
            except Exception:  # pylint: disable=broad-except
                failed += 1
                print(f"not ok {number} - {test.__name__}", flush=True)
                for line in traceback.format_exc().splitlines():
                    print(f"# {line}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
