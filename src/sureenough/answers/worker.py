"""The child process in which symbolic code runs: `python -m sureenough.answers.worker`.

It reads length-prefixed JSON requests from its input and writes one reply to each. It may be killed at any
moment; it also ends by itself when its parent goes away, when memory runs out, or when one request takes
too long, so that no run leaves a process behind.
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
from collections.abc import Callable
from typing import IO, Any

MEMORY = 768 * 2**20  # bytes of address space, for symbolic code
LONGEST = 3.0  # seconds for one request, should the parent have died without killing us
_HEADER = struct.Struct(">I")


def send(stream: IO[bytes], message: dict[str, Any]) -> None:
    """One message: its length as four bytes, then itself."""
    body = json.dumps(message).encode()
    stream.write(_HEADER.pack(len(body)) + body)
    stream.flush()


def receive(stream: IO[bytes]) -> dict[str, Any] | None:
    """The next message; None at the end of the stream."""
    header = _exactly(stream, _HEADER.size)
    if header is None:
        return None
    body = _exactly(stream, *_HEADER.unpack(header))
    if body is None:
        return None
    message: dict[str, Any] = json.loads(body)
    return message


def _exactly(stream: IO[bytes], size: int) -> bytes | None:
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
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's business
    verify = _preload()
    send(replies, {"ready": True})
    while (request := receive(requests)) is not None:
        with _TimeLimit(LONGEST):
            reply = _answer(request, verify)
        send(replies, reply)


def _private_pipes() -> tuple[IO[bytes], IO[bytes]]:
    """Our two pipes under new numbers; whatever a library prints goes nowhere."""
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
    """MEMORY bytes more than we have now: what the package itself has mapped by then is not ours to judge."""
    try:
        import resource
    except ImportError:  # Windows has no such limit; the parent's clock is the only guard there
        return
    try:
        with open("/proc/self/statm") as statm:
            mapped = int(statm.read().split()[0]) * resource.getpagesize()
    except OSError:  # not Linux
        mapped = 0
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (mapped + MEMORY, mapped + MEMORY))


class _TimeLimit:
    """Ends this process, from outside the interpreter where the system can, when a request takes too long."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.timer: threading.Timer | None = None

    def __enter__(self) -> None:
        if hasattr(signal, "setitimer"):
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.setitimer(signal.ITIMER_REAL, self.seconds)
        else:
            self.timer = threading.Timer(self.seconds, os._exit, (1,))
            self.timer.daemon = True
            self.timer.start()

    def __exit__(self, *_: object) -> None:
        if self.timer is not None:
            self.timer.cancel()
        else:
            signal.setitimer(signal.ITIMER_REAL, 0)


Verify = Callable[[str, str, bool], bool]


def _preload() -> Verify:
    """math-verify, imported and warmed up; its own timeouts are off, for the parent keeps the time."""
    logging.disable(logging.CRITICAL)
    from math_verify import LatexExtractionConfig, parse, verify

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

    # What sympy loads on first use is loaded now, not inside somebody's fifth of a second.
    compare(r"\frac{x^{2}}{2}", r"\frac{1}{2}\cdot x^{2}", True)
    compare(r"\sin(2x)", r"2\cdot \sin(x)\cdot \cos(x)", True)
    compare(r"\sqrt{2}\cdot \ln(x)+\cos(\frac{1}{7}\cdot \pi)", r"\ln(x^{\sqrt{2}})+\sin(\frac{5}{14}\cdot \pi)", True)
    return compare


def _answer(request: dict[str, Any], verify: Verify) -> dict[str, Any]:
    try:
        same = verify(str(request["gold"]), str(request["answer"]), bool(request["both"]))
    except (MemoryError, RecursionError) as reason:
        return {"id": request["id"], "error": type(reason).__name__}
    except Exception as reason:  # symbolic code fails in every way there is; the parent is told which
        return {"id": request["id"], "error": f"{type(reason).__name__}: {reason}"[:200]}
    return {"id": request["id"], "same": same}


if __name__ == "__main__":
    main()
