"""The caller's side of symbolic comparison: two killable child processes, shared by all threads of this process.

A request that its caller stopped waiting for is still answered, and its verdict is kept for whoever asks next. While
one child is being replaced, the other serves.
"""

from __future__ import annotations

import atexit
import itertools
import os
import queue
import signal
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass, field, replace

from sureenough.answers.child import HARD_SECONDS, Child

PAIR_STEPS = 600_000  # function calls for one comparison, some 0.7 s
CHILDREN = 2
MAX_FAILED_STARTS = 3
MAX_MESSAGE = 10_000  # characters: well below what a pipe holds, so that writing never blocks
MAX_WAITING = 64  # requests; beyond that a caller is refused at once
_START_SECONDS = 200.0  # a child that cannot start ends at once; one that is slow to start is short of CPU time
_KEPT = 16384  # verdicts
_NO_CHILD = "no worker"
_CPU_LIMIT_SIGNAL = getattr(signal, "SIGPROF", 999)  # Windows has none


@dataclass(frozen=True, slots=True)
class WorkerReply:
    """The result of one comparison: `same` is None without a verdict, and `why` says the reason.

    `settled` replies depend on the pair alone. The others (a timeout, a child that does not start) depend on the
    moment, and are not kept.
    """

    same: bool | None
    why: str = ""
    steps: int = 0
    seconds: float = 0.0  # that the caller waited
    settled: bool = True


Pair = tuple[str, str, bool]
"""The gold text, the answer, and whether they are compared both ways."""


@dataclass(slots=True)
class _Request:
    """A comparison that one or several callers wait for."""

    pair: Pair
    reply: WorkerReply = WorkerReply(None, "timeout", settled=False)
    done: threading.Event = field(default_factory=threading.Event)

    def finish(self, reply: WorkerReply) -> None:
        self.reply = reply
        self.done.set()


class _WorkerServer:
    """One child and the thread that hands it requests. Only a child that is ready takes one from the queue."""

    def __init__(self, worker: SymbolicWorker) -> None:
        self._worker = worker
        self._requests = worker.requests
        self._numbers = itertools.count(1)
        self.child: Child | None = None
        self.up = threading.Event()  # a child is ready, or starting one was given up
        self.stopped = False
        self.thread = threading.Thread(target=self._serve, name="sureenough-answers-serve", daemon=True)
        self.thread.start()

    def _serve(self) -> None:
        try:
            self._serve_until_stopped()
        finally:
            if self.child is not None:
                self.child.kill()

    def _serve_until_stopped(self) -> None:
        while not self.stopped:
            child = self._ready_child()
            self.up.set()
            request = self._requests.get()
            if request is None or self.stopped:
                return
            reply = self._compare(child, request)
            if reply.why == "worker died" and not self.stopped:  # killed from outside, perhaps: its successor may do it
                reply = self._compare(self._ready_child(), request)
            self._worker.finish(request, reply)

    def _ready_child(self) -> Child | None:
        """The child, replaced if it is dead; None if starting one failed too often."""
        for _ in range(MAX_FAILED_STARTS):
            child = self.child
            if child is None or not child.alive:
                if child is not None:
                    child.kill()
                try:
                    child = self.child = Child()
                except OSError:
                    self.child = None
                    continue
            if child.ready.wait(_START_SECONDS) and child.came_up and child.alive:
                return child
            child.kill()
        return None

    def _compare(self, child: Child | None, request: _Request) -> WorkerReply:
        if child is None:
            return WorkerReply(None, _NO_CHILD, settled=False)
        number = next(self._numbers)
        gold, answer, both = request.pair
        try:
            reply = child.ask({"id": number, "gold": gold, "answer": answer, "both": both, "steps": PAIR_STEPS})
        except queue.Empty:
            child.kill()
            return WorkerReply(None, "timeout", settled=False)
        if reply is None or reply["id"] != number:
            child.kill()
            if child.process.returncode == -_CPU_LIMIT_SIGNAL:
                # The child's own limit on CPU time depends on the pair; any other death may be an accident.
                return WorkerReply(None, "too much CPU time", PAIR_STEPS)
            return WorkerReply(None, "worker died", settled=False)
        return WorkerReply(reply.get("same"), str(reply.get("error", "")), int(reply["steps"]))


class SymbolicWorker:
    """Compares expressions in child processes, which it starts when the first pair needs them."""

    def __init__(self) -> None:
        self._reset()

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self.requests: queue.SimpleQueue[_Request | None] = queue.SimpleQueue()
        self._servers: list[_WorkerServer] = []
        self._waiting: dict[Pair, _Request] = {}
        self._known: OrderedDict[Pair, WorkerReply] = OrderedDict()

    @property
    def pids(self) -> list[int]:
        children = [server.child for server in list(self._servers)]
        return [child.process.pid for child in children if child is not None and child.alive]

    def warm_up(self, timeout: float = 30.0) -> bool:
        """Start a child and wait until it is ready; False if it is not by then. 0 does not wait."""
        with self._lock:
            server = self._first_server()
        return server.up.wait(timeout) and server.child is not None and server.child.alive

    def ask(self, gold: str, answer: str, *, both: bool = True, patience: float = HARD_SECONDS) -> WorkerReply:
        """Whether two LaTeX texts are the same; waits at most `patience` seconds for the verdict."""
        pair = (gold, answer, both)
        with self._lock:
            if pair in self._known:
                self._known.move_to_end(pair)
                return self._known[pair]
        if len(gold) + len(answer) > MAX_MESSAGE:
            return WorkerReply(None, "too long")
        reply = self._submit(pair, patience)
        self._keep(pair, reply)
        return reply

    def _submit(self, pair: Pair, patience: float) -> WorkerReply:
        began = time.monotonic()
        with self._lock:
            request = self._waiting.get(pair)
            if request is None:
                if len(self._waiting) >= MAX_WAITING:
                    return WorkerReply(None, "timeout", settled=False)
                self._first_server()
                request = self._waiting[pair] = _Request(pair)
                self.requests.put(request)
                if len(self._servers) < CHILDREN:
                    self._servers.append(_WorkerServer(self))  # the spare
        request.done.wait(patience)
        return replace(request.reply, seconds=time.monotonic() - began)

    def finish(self, request: _Request, reply: WorkerReply) -> None:
        """Called by a server's thread; keeps the verdict even if no caller waits for it any longer."""
        with self._lock:
            self._waiting.pop(request.pair, None)
        self._keep(request.pair, reply)
        request.finish(reply)

    def _keep(self, pair: Pair, reply: WorkerReply) -> None:
        if reply.settled:
            with self._lock:
                self._known[pair] = replace(reply, seconds=0.0)
                if len(self._known) > _KEPT:
                    self._known.popitem(last=False)

    def _first_server(self) -> _WorkerServer:
        if not self._servers:
            self._servers.append(_WorkerServer(self))
        return self._servers[0]

    def stop(self) -> None:
        """Kill the children, if there are any; the next comparison starts new ones."""
        with self._lock:
            servers, waiting, requests = self._servers, list(self._waiting.values()), self.requests
            self._servers, self._waiting, self.requests = [], {}, queue.SimpleQueue()
        for server in servers:
            server.stopped = True
            requests.put(None)
        for server in servers:
            if server.child is not None:
                server.child.kill()
        for request in waiting:
            request.finish(WorkerReply(None, "stopped", settled=False))

    def forget(self) -> None:
        """After a fork: the children and threads belong to the other process, and so does whoever held the lock."""
        servers = self._servers
        self._reset()
        for server in servers:
            if server.child is not None:
                server.child.abandon()


WORKER = SymbolicWorker()
atexit.register(WORKER.stop)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=WORKER.forget)
