"""Leader election: is this process the one that may act?

    import conclave

    with conclave.Election("nightly") as election:      # on every machine
        election.wait()                                  # until this process leads
        while leadership := election.leads():
            work(leadership.token)                       # within leadership.left seconds

or, in asyncio:

    async with conclave.Election("shard-7", "postgres://ops@db/ops") as election:
        async for status in election.changes():
            print(status.role, status.leader, status.token)

What a leader may rely on: nobody else leads before `leadership.left` seconds are over, on a clock that
nobody can set. Any time may pass between the question and the action. So a resource that must never be used
twice checks the token, which grows with each leadership, and refuses smaller ones.

This module needs libconclave.so.0 and nothing else; CONCLAVE_LIBRARY names another file. The addresses
are those of conclave-address(7). An Election may be used from any thread. In a child made by fork() the
elections of its parent are closed."""

import asyncio
import atexit
import contextlib
import ctypes
import dataclasses
import enum
import os
import threading
import warnings
import weakref

__all__ = ["Election", "Engine", "Error", "Leadership", "Role", "Status", "version"]

_NODE_BYTES, _TEXT_BYTES = 128, 512  # CV_NODE_BYTES, CV_ERRTEXT_BYTES
_NS = 1_000_000_000
_FOREVER_NS = 2**63 - 1


class _ErrorText(ctypes.Structure):
    _fields_ = [("text", ctypes.c_char * _TEXT_BYTES)]


_LOG = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p)


class _Options(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("node", ctypes.c_char_p),
        ("lease_ns", ctypes.c_int64),
        ("is_observer", ctypes.c_bool),
        ("progress_ns", ctypes.c_int64),
        ("accepts_two_leaders", ctypes.c_bool),
        ("engine", ctypes.c_void_p),
        ("log", _LOG),
        ("log_user", ctypes.c_void_p),
        ("ignores_renewals", ctypes.c_bool),
    ]


class _Status(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("sequence", ctypes.c_uint64),
        ("role", ctypes.c_int),
        ("reason", ctypes.c_int),
        ("token", ctypes.c_uint64),
        ("valid_until_ns", ctypes.c_int64),
        ("has_majority", ctypes.c_bool),
        ("is_resign_requested", ctypes.c_bool),
        ("self", ctypes.c_char * _NODE_BYTES),
        ("leader", ctypes.c_char * _NODE_BYTES),
        ("heir", ctypes.c_char * _NODE_BYTES),
        ("trouble", ctypes.c_char * _TEXT_BYTES),
        ("last_token", ctypes.c_uint64),
        ("last_reason", ctypes.c_int),
        ("is_leader_known", ctypes.c_bool),
    ]


def _load():
    try:
        library = ctypes.CDLL(os.environ.get("CONCLAVE_LIBRARY", "libconclave.so.0"))
    except OSError as error:
        raise ImportError(f"{error}; install Conclave, or set CONCLAVE_LIBRARY to the path of its library") from None
    pointer, text, number = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int
    out = ctypes.POINTER
    for name, result, arguments in (
            ("cv_version", text, []),
            ("cv_strerror", text, [number]),
            ("cv_reason_name", text, [number]),
            ("cv_engine_new", number, [out(pointer), out(_ErrorText)]),
            ("cv_engine_free", number, [pointer]),
            ("cv_open", number, [out(pointer), text, text, out(_Options), out(_ErrorText)]),
            ("cv_close", None, [pointer]),
            ("cv_leads", ctypes.c_bool, [pointer, out(ctypes.c_uint64), out(ctypes.c_int64)]),
            ("cv_is_leader", ctypes.c_bool, [pointer]),
            ("cv_status", number, [pointer, out(_Status)]),
            ("cv_wait", number, [pointer, number, ctypes.c_int64]),
            ("cv_fd", number, [pointer]),
            ("cv_campaign", number, [pointer, ctypes.c_bool]),
            ("cv_resign", number, [pointer, text]),
            ("cv_request_resign", number, [pointer, text]),
            ("cv_progress", None, [pointer]),
            ("cv_report", number, [pointer, number, ctypes.c_int64])):
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


_lib = _load()
_INVALID, _TIMEOUT = -7001, -7008
_INPUTS = ("history-length", "request-rate", "capacity", "load", "score")


class Error(Exception):
    """What the library refused or could not do; `code` is one of its CV_E_* numbers."""

    def __init__(self, code, text=None):
        super().__init__(text or _lib.cv_strerror(code).decode())
        self.code = code


class Role(enum.Enum):
    OBSERVER = 0  # does not want to lead
    WAITING = 1   # wants to lead
    LEADER = 2


@dataclasses.dataclass(frozen=True)
class Leadership:
    """What to act with: the fencing token, and for how many seconds it is still valid."""
    token: int
    left: float


@dataclasses.dataclass(frozen=True)
class Status:
    """One consistent view of an election."""
    sequence: int  # grows with each change
    role: Role
    reason: str    # of the latest change
    token: int     # of the leadership; if there is none, of the latest known one
    valid_until_ns: int  # leader: CLOCK_BOOTTIME; otherwise 0
    has_majority: bool
    is_resign_requested: bool
    node: str      # this process
    leader: str    # empty: none; see is_leader_known
    heir: str      # is_resign_requested: the requested successor; empty: any
    trouble: str   # why leases are not renewed now; or empty
    last_token: int   # of the latest leadership that is known to be over; 0: none
    last_reason: str  # why it ended; "gone": not known
    is_leader_known: bool  # False: perhaps somebody leads, perhaps nobody


def version():
    """The version of the library."""
    return _lib.cv_version().decode()


def _check(code):
    if code < 0:
        raise Error(code)
    return code


def _text(value, what):
    if value is None:
        return None
    encoded = os.fsencode(value)
    if b"\0" in encoded:
        raise ValueError(f"{what} contains a zero byte")
    return encoded


def _ns(seconds, what):
    if seconds is None:
        return 0
    try:
        is_possible = 0 <= seconds < _FOREVER_NS / _NS
    except TypeError:
        raise TypeError(f"{what} must be a number of seconds, not {seconds!r}") from None
    if not is_possible:
        raise ValueError(f"{what} must not be negative or endless: {seconds}")
    return round(seconds * _NS)


_elections, _engines = weakref.WeakSet(), weakref.WeakSet()  # those that may have to be closed
_is_exiting = False


@atexit.register
def _close_all():
    """The library must not call log functions of an interpreter that ends, and the next leader need not wait."""
    global _is_exiting  # pylint: disable=global-statement
    _is_exiting = True
    for each in (*_elections, *_engines):
        with contextlib.suppress(Error):  # an engine with an election that was opened just now
            each.close()


def _forget_all():
    """In a child made by fork(): the threads of the library, and the leaderships, are only in the parent."""
    for each in (*_elections, *_engines):
        each._pointer.value = None
        each._is_closed = True
    for election in tuple(_elections):
        election._calls.clear()  # close() must not wait for the parent's threads: they do not run here


os.register_at_fork(after_in_child=_forget_all)


class _Unique:
    def __reduce_ex__(self, _):
        """copy, pickle and multiprocessing call it. A copy that is dropped would close the original."""
        raise TypeError(f"an object of {type(self).__name__} cannot be copied or pickled")


class Engine(_Unique):
    """A thread that runs many elections and shares their connections: Election(..., engine=engine)."""

    _pointer = None
    _is_dropped = False

    def __init__(self):
        self._elections = set()  # the id() of each that is open
        self._pointer = ctypes.c_void_p()
        _engines.add(self)
        why = _ErrorText()
        code = _lib.cv_engine_new(ctypes.byref(self._pointer), ctypes.byref(why))
        if code != 0:
            raise Error(code, why.text.decode(errors="replace"))

    def close(self):
        """Ends the thread. Raises Error while elections in it are open."""
        pointer, self._pointer.value = self._pointer.value, None  # no election begins in it from now on
        if pointer is not None and self._elections:
            self._pointer.value = pointer
            count = len(self._elections)
            raise Error(_INVALID, "cannot close the engine: " +
                        (f"{count} elections are still open" if count > 1 else "an election is still open"))
        _check(_lib.cv_engine_free(pointer))

    def _enter(self, election):
        self._elections.add(id(election))  # first: now close() cannot free what is returned here
        pointer = self._pointer.value
        if pointer is None:
            self._elections.discard(id(election))
            raise ValueError(f"cannot open the election '{election._name}': the engine is closed")
        return pointer

    def _leave(self, election):
        self._elections.discard(id(election))
        if self._is_dropped and not self._elections:
            self.close()

    def __del__(self):
        if self._pointer:
            self._is_dropped = True
            if not self._elections:  # otherwise they are collected together, and the last one closes it
                self.close()
            warnings.warn("an engine was dropped without close()", ResourceWarning, source=self)

    def __enter__(self):
        if self._pointer.value is None:
            raise ValueError("the engine is closed")
        return self

    def __exit__(self, kind, *_):
        try:
            self.close()
        except Error:
            if kind is None:  # otherwise elections are open because of the exception, which says more
                raise


class Election(_Unique):
    """Takes part in the election `name` held at `address` (None: a file of this user, on this host).

    node      a name for people; None: host name and process id
    lease     seconds that a leadership lasts without renewal; None: 5
    observer  only watch, until campaign()
    progress  seconds: a leader's lease is renewed only if progress() was called within this time
    engine    an Engine to run in; None: its own
    log       is called with (level, line), level 0 (debug) to 3 (warning), from a thread of the library
    ignores_renewals  a renewal is not a change for fileno() and changes()

    It is closed by close(), at the end of a `with` block, and when it is dropped or the interpreter ends.
    """

    _pointer = None
    _is_closed = False

    def __init__(self, name, address=None, *, node=None, lease=None, observer=False, progress=None,
                 accepts_two_leaders=False, engine=None, log=None, ignores_renewals=False):
        self._calls = {}  # of the library, now: a lock that is held meanwhile, and the thread
        self._followers = set()  # (loop, event) of each changes()
        self._sequence = None  # of the latest status that was read
        self._name = name
        # The library calls it until cv_close() has returned.
        self._log = _LOG(lambda _, level, line: log(level, line.decode(errors="replace"))) \
            if log else _LOG()
        self._engine = engine  # it must live as long as this
        options = _Options(
            size=ctypes.sizeof(_Options), node=_text(node, "the node's name"),
            lease_ns=_ns(lease, "the lease"), is_observer=observer,
            progress_ns=_ns(progress, "the progress"), accepts_two_leaders=accepts_two_leaders,
            log=self._log, ignores_renewals=ignores_renewals)
        name, address, why = _text(name, "the election's name"), _text(address, "the address"), _ErrorText()
        self._pointer = ctypes.c_void_p()
        _elections.add(self)
        if engine:
            options.engine = engine._enter(self)
        code = _lib.cv_open(ctypes.byref(self._pointer), name, address, ctypes.byref(options), ctypes.byref(why))
        if code != 0:
            if engine:
                engine._leave(self)
            raise Error(code, why.text.decode(errors="replace"))

    def _call(self, function, *arguments):
        """Calls the library. close() waits until this has returned."""
        call = threading.Lock()
        call.acquire()
        try:
            self._calls[call] = threading.get_ident()  # first: now close() cannot free the pointer
            if self._is_closed:
                if _is_exiting and threading.current_thread().daemon:
                    raise SystemExit  # ends the thread without a traceback
                raise ValueError("the election is closed")
            return function(self._pointer, *arguments)
        finally:
            self._calls.pop(call, None)
            call.release()

    # ---- Questions ---------------------------------------------------------------------------

    def leads(self):
        """A Leadership if this process leads right now, otherwise None. Cheap: ask before each action."""
        token, left_ns = ctypes.c_uint64(), ctypes.c_int64()
        if not self._call(_lib.cv_leads, ctypes.byref(token), ctypes.byref(left_ns)):
            return None
        return Leadership(token.value, left_ns.value / _NS)

    @property
    def is_leader(self):
        return self._call(_lib.cv_is_leader)

    def status(self):
        """The latest Status."""
        raw = _Status(size=ctypes.sizeof(_Status))
        _check(self._call(_lib.cv_status, ctypes.byref(raw)))
        if raw.sequence != self._sequence:  # the descriptor is not readable any more
            self._sequence = raw.sequence
            self._wake()

        def text(value):
            return value.decode(errors="replace")

        return Status(raw.sequence, Role(raw.role), _lib.cv_reason_name(raw.reason).decode(), raw.token,
                      raw.valid_until_ns, raw.has_majority, raw.is_resign_requested,
                      text(raw.self), text(raw.leader), text(raw.heir), text(raw.trouble),
                      raw.last_token, _lib.cv_reason_name(raw.last_reason).decode(), raw.is_leader_known)

    def fileno(self):
        """A descriptor that is readable when there is a status that was not asked for yet."""
        return _check(self._call(_lib.cv_fd))

    # ---- Waiting -----------------------------------------------------------------------------

    def wait(self, timeout=None):
        """Waits until this process leads. False: it did not within `timeout` seconds."""
        return self._wait(0, timeout)

    def wait_lost(self, timeout=None):
        """Waits until it does not lead."""
        return self._wait(1, timeout)

    def wait_leader(self, timeout=None):
        """Waits until somebody is known to lead."""
        return self._wait(2, timeout)

    def _wait(self, until, timeout):
        # In slices, so that Ctrl-C and close() work: the library notices neither while it waits.
        left_ns = _FOREVER_NS if timeout is None else _ns(timeout, "the timeout")
        while True:
            slice_ns = min(left_ns, _NS // 5)
            code = self._call(_lib.cv_wait, until, slice_ns)
            if code != _TIMEOUT:
                _check(code)
                return True
            if left_ns != _FOREVER_NS:
                left_ns -= slice_ns
                if left_ns <= 0:
                    return False

    async def changes(self):
        """Yields the Status now and after each change, a renewal included; several changes at once may be
        one. Ends when the election is closed. There may be several at the same time."""
        loop = asyncio.get_running_loop()
        changed = asyncio.Event()
        # A number that close() does not give to another file.
        descriptor = self._call(lambda pointer: os.dup(_check(_lib.cv_fd(pointer))))
        follower = (loop, changed)

        def on_readable():
            loop.remove_reader(descriptor)  # it stays readable until somebody asks for the status
            changed.set()

        self._followers.add(follower)
        told = None
        try:
            while True:
                changed.clear()
                try:
                    status = self.status()
                except ValueError:
                    if self._is_closed:
                        return
                    raise
                if told != status.sequence:
                    told = status.sequence
                    yield status
                else:
                    loop.add_reader(descriptor, on_readable)
                    await changed.wait()
        finally:
            self._followers.discard(follower)
            loop.remove_reader(descriptor)
            os.close(descriptor)

    def _wake(self):
        for loop, changed in tuple(self._followers):
            with contextlib.suppress(RuntimeError):  # that loop has ended
                loop.call_soon_threadsafe(changed.set)

    # ---- Requests ----------------------------------------------------------------------------

    def campaign(self, candidate=True):
        """Be, or do not be, a candidate. A leader that stops being one resigns."""
        _check(self._call(_lib.cv_campaign, candidate))

    def resign(self, heir=None):
        """Stop leading. Call it when the work has stopped: the next leader may begin at once."""
        _check(self._call(_lib.cv_resign, _text(heir, "the heir's name")))

    def request_resign(self, heir=None):
        """Asks the leader, whichever process it is, to resign."""
        _check(self._call(_lib.cv_request_resign, _text(heir, "the heir's name")))

    def progress(self):
        """The work goes on; see the option `progress`."""
        self._call(_lib.cv_progress)

    def report(self, score_input, value):
        """An input for scores: history-length, request-rate, capacity, load or score."""
        if score_input not in _INPUTS:
            raise ValueError(f"unknown input '{score_input}'; known: {', '.join(_INPUTS)}")
        _check(self._call(_lib.cv_report, _INPUTS.index(score_input), value))

    # ---- The end -----------------------------------------------------------------------------

    def close(self):
        """Resigns and frees everything; waits up to a second until the others know. Calls of other threads
        end first, with ValueError: wait() takes up to 0.2 seconds for this."""
        self._is_closed = True
        self._wake()
        for call, thread in self._calls.copy().items():
            if thread != threading.get_ident():  # this thread's: a signal handler interrupted it
                with call:
                    pass
        # An interrupted call may go on with the pointer: then the library refuses NULL.
        pointer, self._pointer.value = self._pointer.value, None
        if pointer is not None:
            try:
                _lib.cv_close(pointer)
            finally:  # Ctrl-C
                if self._engine:
                    self._engine._leave(self)

    def __del__(self):
        if self._pointer:
            self.close()
            warnings.warn(f"the election '{self._name}' was dropped without close()", ResourceWarning, source=self)

    def __enter__(self):
        if self._is_closed:
            raise ValueError("the election is closed")
        return self

    def __exit__(self, *_):
        self.close()

    async def __aenter__(self):
        return self.__enter__()

    async def __aexit__(self, *_):
        # Closing waits for the store; the loop goes on meanwhile.
        await asyncio.get_running_loop().run_in_executor(None, self.close)
