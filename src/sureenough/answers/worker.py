"""The child process in which symbolic code runs: `python -m sureenough.answers.worker`.

It reads length-prefixed JSON requests from its input and writes one reply to each. Work is limited by a count of
function calls, so that neither the machine's speed nor its load changes a verdict; limits on memory and CPU time
catch what makes no calls. The child may be killed at any moment, and it ends with its parent.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import IO, Any

MEMORY = 768 * 2**20  # bytes of address space for symbolic code
CPU_SECONDS = 4.0  # for one request: several times what the calls of PAIR_STEPS take on a slow machine
_HEADER = struct.Struct(">I")

Verify = Callable[[str, str, bool], bool]


class _StepLimit(BaseException):
    """More calls than the request allows. Not an Exception: symbolic code catches those and goes on."""


def send(stream: IO[bytes], message: dict[str, Any]) -> None:
    """Write one message: its length in four bytes, then its JSON."""
    body = json.dumps(message).encode()
    stream.write(_HEADER.pack(len(body)) + body)
    stream.flush()


def receive(stream: IO[bytes]) -> dict[str, Any] | None:
    """The next message; None at the end of the stream."""
    header = _read_exactly(stream, _HEADER.size)
    if header is None:
        return None
    body = _read_exactly(stream, *_HEADER.unpack(header))
    if body is None:
        return None
    message: dict[str, Any] = json.loads(body)
    return message


def _read_exactly(stream: IO[bytes], size: int) -> bytes | None:
    data = b""
    while len(data) < size:
        piece = stream.read(size - len(data))
        if not piece:
            return None
        data += piece
    return data


def main() -> None:
    requests, replies = _private_pipes()
    _limit_memory()
    with contextlib.suppress(ValueError, AttributeError):
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is handled by the parent
    verify = _preload()
    send(replies, {"ready": True})
    while (request := receive(requests)) is not None:
        with _cpu_limit(CPU_SECONDS):
            reply = _answer(request, verify)
        send(replies, reply)


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
    """Allow MEMORY bytes beyond what the interpreter and this package have mapped already."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return
    try:
        with open("/proc/self/statm") as statm:
            mapped = int(statm.read().split()[0]) * resource.getpagesize()
    except OSError:  # not Linux
        mapped = 0
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


def _preload() -> Verify:
    """math-verify's comparison, with everything loaded that it loads on first use, so that steps are the same."""
    logging.disable(logging.CRITICAL)
    from math_verify import LatexExtractionConfig, parse, verify
    from sympy.core.cache import clear_cache
    from sympy.core.random import seed

    # Only its LaTeX reader: its plain-text one hands digits and operators to sympy's expression parser.
    latex = [LatexExtractionConfig(boxed_match_priority=-1)]

    def read(text: str) -> Any:
        return parse(f"${text}$", extraction_config=latex, fallback_mode="no_fallback", parsing_timeout=None)

    def compare(gold: str, answer: str, both: bool) -> bool:
        one, two = read(gold), read(answer)
        if not one or not two:
            return False
        forward = bool(verify(one, two, timeout_seconds=None))
        return forward and (not both or bool(verify(two, one, timeout_seconds=None)))

    def afresh(gold: str, answer: str, both: bool) -> bool:
        # Without what earlier pairs left in caches and random numbers, a pair's steps and verdict are its own.
        clear_cache()
        seed(0)
        return compare(gold, answer, both)

    afresh(r"\frac{x^{2}}{2}", r"\frac{1}{2}\cdot x^{2}", True)
    afresh(r"\sin(2x)", r"2\cdot \sin(x)\cdot \cos(x)", True)
    afresh(r"\sqrt{2}\cdot \ln(x)+\cos(\frac{1}{7}\cdot \pi)", r"\ln(x^{\sqrt{2}})+\sin(\frac{5}{14}\cdot \pi)", True)
    return afresh


def _answer(request: dict[str, Any], verify: Verify) -> dict[str, Any]:
    limit, steps = int(request["steps"]), 0

    def count_call(_frame: FrameType, _event: str, _arg: object) -> None:
        nonlocal steps
        steps += 1
        if steps > limit:
            raise _StepLimit

    reply: dict[str, Any] = {"id": request["id"]}
    sys.settrace(count_call)
    try:
        reply["same"] = verify(str(request["gold"]), str(request["answer"]), bool(request["both"]))
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
