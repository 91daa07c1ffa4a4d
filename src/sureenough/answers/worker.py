"""The child process in which symbolic code runs: `python -m sureenough.answers.worker`.

It reads requests from its input, a line of JSON each, and writes one reply to each. Work is limited by a count of
function calls, so that neither the machine's speed nor its load changes a verdict (comparisons of keys, whose number
depends on addresses, are not counted); limits on memory and CPU time catch what makes no calls. Every request is
answered in a copy of the process, so that what earlier ones left in caches and loaded modules changes neither its
calls nor its verdict. The child may be killed at any moment, and it ends with its parent.
"""

from __future__ import annotations

import contextlib
import gc
import json
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from types import FrameType
from typing import IO, Any

MEMORY = 768 * 2**20  # bytes of address space for symbolic code
CPU_SECONDS = 4.0  # for one request: several times what the calls of PAIR_STEPS take on a slow machine
_LOOKUPS = frozenset(["__eq__", "__ne__", "__hash__", "_hashable_content"])
"""Calls that are not counted: how often a table compares its keys depends on addresses, which differ by process."""
WARM_UP = (
    (r"\frac{x^{2}}{2}", r"\frac{1}{2}\cdot x^{2}"),
    (r"\sin(2x)", r"2\cdot \sin(x)\cdot \cos(x)"),
    (r"\sqrt{2}\cdot \ln(x)+\cos(\frac{1}{7}\cdot \pi)", r"\ln(x^{\sqrt{2}})+\sin(\frac{5}{14}\cdot \pi)"),
    (r"-(|y|)^{2}", r"-y^{2}"),
    (r"\frac{x+y}{x\cdot y}", r"\frac{1}{x}+\frac{1}{y}"),
    (r"(x+1)\cdot (x-1)", r"x^{2}-1"),
    (r"a_{1}+b_{2}-3\cdot y^{-2}", r"-\frac{3}{y^{2}}+b_{2}+a_{1}"),
    (r"\frac{-1+\sqrt[3]{5}}{2}", r"\frac{1}{2}\cdot (\sqrt[3]{5}-1)"),
    (r"\frac{\sin(x)}{\cos(x)}", r"\tan(x)"),
    (r"e^{i\cdot \pi}+2\cdot \log(x)", r"\log(x^{2})-1"),
)
"""Pairs that are compared at the start: the parser learns, and modules are loaded."""

Read = Callable[[str], Any]
Verify = Callable[[Any, Any, bool], bool]


class _StepLimit(BaseException):
    """More calls than the request allows. Not an Exception: symbolic code catches those and goes on."""


def send(stream: IO[bytes], message: dict[str, Any]) -> None:
    """Write one message: a line of JSON."""
    stream.write(json.dumps(message).encode() + b"\n")
    stream.flush()


def receive(stream: IO[bytes]) -> dict[str, Any] | None:
    """The next message; None at the end of the stream, also if that cuts a message off."""
    line = stream.readline()
    message: dict[str, Any] | None = json.loads(line) if line.endswith(b"\n") else None
    return message


def main() -> None:
    requests, replies = _private_pipes()
    _limit_memory()
    with contextlib.suppress(ValueError, AttributeError):
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is handled by the parent
    compare = _preload()
    gc.freeze()  # or a collection in a copy would copy all that was loaded
    send(replies, {"ready": True})
    while (request := receive(requests)) is not None:
        answer = partial(_within_cpu_limit, request, *compare)
        send(replies, _in_a_copy(request, answer, (requests, replies)) if hasattr(os, "fork") else answer())


def _within_cpu_limit(request: dict[str, Any], read: Read, same: Verify) -> dict[str, Any]:
    with _cpu_limit(CPU_SECONDS):
        return _answer(request, read, same)


def _in_a_copy(
    request: dict[str, Any], answer: Callable[[], dict[str, Any]], pipes: tuple[IO[bytes], IO[bytes]]
) -> dict[str, Any]:
    """The reply of a copy of this process. If the copy dies of anything but its CPU limit, this process ends, too."""
    reading, writing = os.pipe()
    copy = os.fork()
    if copy == 0:
        _end_with_parent()
        for pipe in pipes:  # their other ends must see that this process's parent has ended
            os.close(pipe.fileno())
        with os.fdopen(writing, "wb") as result:
            send(result, answer())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as result:
        reply = receive(result)
    _, status = os.waitpid(copy, 0)
    if reply is not None:
        return reply
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGPROF:
        return {"id": request["id"], "error": "too much CPU time", "steps": int(request["steps"])}
    os._exit(1)


def _end_with_parent() -> None:
    """Linux ends a copy whose parent was killed; elsewhere its CPU limit does."""
    if sys.platform == "linux":
        import ctypes

        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def _private_pipes() -> tuple[IO[bytes], IO[bytes]]:
    """Our two pipes under new numbers, so that nothing a library prints ends up in a reply."""
    requests, replies = os.dup(0), os.dup(1)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nowhere, standard)
    if sys.platform == "win32":
        import msvcrt

        for pipe in (requests, replies):
            msvcrt.setmode(pipe, os.O_BINARY)
    return os.fdopen(requests, "rb"), os.fdopen(replies, "wb")


def _limit_memory() -> None:
    """Allow MEMORY bytes beyond what the interpreter and this package have mapped already; Linux only."""
    try:
        import resource

        with open("/proc/self/statm", encoding="ascii") as statm:
            mapped = int(statm.read().split()[0]) * resource.getpagesize()
    except (ImportError, OSError):  # macOS maps far more than it uses, and Windows has no such limit
        return
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (mapped + MEMORY, mapped + MEMORY))


@contextlib.contextmanager
def _cpu_limit(seconds: float) -> Iterator[None]:
    """Ends this process when a request takes too long, even inside C code, where no Python handler runs."""
    if hasattr(signal, "setitimer"):
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_PROF, seconds)  # CPU time: a busy machine does not shorten it
        yield
        signal.setitimer(signal.ITIMER_PROF, 0)
    else:
        timer = threading.Timer(seconds, os._exit, (1,))
        timer.daemon = True
        timer.start()
        yield
        timer.cancel()


def _preload() -> tuple[Read, Verify]:
    """math-verify's reader and comparison, with everything loaded that they load on first use."""
    logging.disable(logging.CRITICAL)
    from math_verify import LatexExtractionConfig, parse, verify
    from sympy.core.cache import clear_cache
    from sympy.core.random import seed

    # Only its LaTeX reader: its plain-text one hands digits and operators to sympy's expression parser.
    latex = [LatexExtractionConfig(boxed_match_priority=-1)]

    def read(text: str) -> Any:
        return parse(f"${text}$", extraction_config=latex, fallback_mode="no_fallback", parsing_timeout=None)

    def same(one: Any, two: Any, both: bool) -> bool:
        clear_cache()  # for systems on which requests are not answered in copies of the process
        seed(0)
        forward = bool(verify(one, two, timeout_seconds=None))
        return forward and (not both or bool(verify(two, one, timeout_seconds=None)))

    for one, two in WARM_UP:
        same(read(one), read(two), True)
    return read, same


def _answer(request: dict[str, Any], read: Read, same: Verify) -> dict[str, Any]:
    """The reply to a request; only the calls of the comparison are counted, since reading is short."""
    limit, steps = int(request["steps"]), 0

    def count_call(frame: FrameType, _event: str, _arg: object) -> None:
        nonlocal steps
        if frame.f_code.co_name not in _LOOKUPS:
            steps += 1
        if steps > limit:
            raise _StepLimit

    reply: dict[str, Any] = {"id": request["id"]}
    try:
        one, two = read(str(request["gold"])), read(str(request["answer"]))
        sys.settrace(count_call)
        reply["same"] = bool(one and two) and same(one, two, bool(request["both"]))
    except _StepLimit:
        pass
    except (MemoryError, RecursionError) as error:
        reply["error"] = type(error).__name__
    except Exception as error:  # symbolic code fails in every way there is; the reply says how
        reply["error"] = f"{type(error).__name__}: {error}"[:200]
    finally:
        sys.settrace(None)
    if steps > limit:  # also if symbolic code caught the limit and went on
        reply = {"id": request["id"], "error": "too many steps"}
    return {**reply, "steps": min(steps, limit)}


if __name__ == "__main__":
    main()
