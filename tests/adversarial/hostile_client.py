"""Hostile clients of a server: every fault by name. Each uses plain sockets and ends within `seconds`."""

from __future__ import annotations

import json
import random
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

Attack = Callable[["Target", random.Random], bytes]
"""A fault: what the server sent back, up to a few kilobytes."""
ATTACKS: dict[str, Attack] = {}
MESSAGES = [{"role": "user", "content": "3 + 4?"}]
ODD_LINES = [
    b"GET",
    b"GET / HTTP/9.9",
    b"get /%00 HTTP/1.1",
    b"GET /\xff HTTP/1.1",
    b"GET /%ff/%d8%3d HTTP/1.1",
    b"OPTIONS * HTTP/1.1",
    b"GET http://x/ HTTP/1.1",
    b"GET /v1/models/" + b"x" * 9000 + b" HTTP/1.1",
    b"GET /reports/../../etc/passwd HTTP/1.1",
    b"PRI * HTTP/2.0",
]
BODY: dict[str, Any] = {"model": "tiny@sc", "messages": MESSAGES, "sureenough": {"paths": 4}}


class Target:
    """A server to attack; nothing lasts longer than these seconds."""

    def __init__(self, url: str, seconds: float = 5.0) -> None:
        host, port = url.removeprefix("http://").split(":")
        self.address, self.seconds = (host, int(port)), seconds

    @contextmanager
    def connect(self, *, small_buffer: bool = False) -> Iterator[socket.socket]:
        """A connection. The server may end it at any moment."""
        with suppress(OSError), socket.socket() as connection:
            connection.settimeout(self.seconds)
            if small_buffer:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
            connection.connect(self.address)
            yield connection

    def send(self, *pieces: bytes, pause: float = 0.0) -> bytes:
        """Send pieces with pauses between them, and read what comes back."""
        received = []
        with self.connect() as connection:
            with suppress(OSError):
                for piece in pieces:
                    connection.sendall(piece)
                    time.sleep(pause)
            received.append(read_some(connection))
        return b"".join(received)  # nothing if the server ended the connection


def read_some(connection: socket.socket, limit: int = 65_536) -> bytes:
    """What arrives until the connection ends, a response is complete, or time is up."""
    received = b""
    with suppress(OSError):
        while len(received) < limit and (piece := connection.recv(65_536)):
            received += piece
            head, end, content = received.partition(b"\r\n\r\n")
            length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
            if end and length.isdigit() and len(content) >= int(length):
                break
    return received


def post(content: bytes, *headers: bytes, length: bytes | None = None, path: bytes = b"/v1/chat/completions") -> bytes:
    """A request as bytes."""
    lines = [b"POST " + path + b" HTTP/1.1", b"Host: localhost", b"Content-Type: application/json", *headers]
    lines.append(b"Content-Length: " + (str(len(content)).encode() if length is None else length))
    return b"\r\n".join(lines) + b"\r\n\r\n" + content


def body(**fields: Any) -> bytes:
    """The JSON of a request; surrogate halves are escaped."""
    return json.dumps(BODY | fields).encode()


def attack(function: Attack) -> Attack:
    """Add an attack under its function's name."""
    ATTACKS[getattr(function, "__name__", "")] = function
    return function


@attack
def silent(target: Target, draw: random.Random) -> bytes:
    return target.send(draw.choice([b"", b"\r\n", b"G"]))


@attack
def slow_head(target: Target, draw: random.Random) -> bytes:
    return target.send(*(b"X-%d: y\r\n" % at if at else b"GET / HTTP/1.1\r\n" for at in range(20)), pause=0.1)


@attack
def slow_body(target: Target, draw: random.Random) -> bytes:
    content = body()
    return target.send(post(content[:5], length=str(len(content)).encode()), *[b" "] * 5, pause=0.1)


@attack
def huge_head(target: Target, draw: random.Random) -> bytes:
    return target.send(post(b"{}", *draw.choice([[b"X: " + b"x" * 300_000], [b"X: y"] * 30_000])))


@attack
def no_content(target: Target, draw: random.Random) -> bytes:
    messages: Any = draw.choice([[{"role": "user"}], [{}], [], [{"role": "user", "content": None}], None, 5, [[]]])
    return target.send(post(body(messages=messages)))


@attack
def only_tool_calls(target: Target, draw: random.Random) -> bytes:
    return target.send(post(body(messages=[*MESSAGES, {"role": "assistant", "tool_calls": []}])))


@attack
def surrogates(target: Target, draw: random.Random) -> bytes:
    half = draw.choice(["\ud83d", "\ude00", "\ude00\ud83d"])
    fields: list[dict[str, Any]] = [
        {"messages": [{"role": half, "content": half}]},
        {"model": half},
        {half: half},
        {"stop": half},
    ]
    return target.send(post(body(**draw.choice(fields))))


@attack
def not_utf_8(target: Target, draw: random.Random) -> bytes:
    return target.send(post(draw.choice([draw.randbytes(200), b'{"model": "\xff@sc"}', b"\xef\xbb\xbf{}", b"\x00"])))


@attack
def huge_body(target: Target, draw: random.Random) -> bytes:
    return target.send(post(b" " * 5_000_000))


@attack
def endless_body(target: Target, draw: random.Random) -> bytes:
    piece = b"%x\r\n%s\r\n" % (65_536, b" " * 65_536)
    head = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    return target.send(head + b"Transfer-Encoding: chunked\r\n\r\n", *[piece] * 1000)


@attack
def bad_length(target: Target, draw: random.Random) -> bytes:
    length = draw.choice([b"abc", "²".encode(), b"-1", b"9" * 5000, b"1, 2", b"5\r\nContent-Length: 6", b""])
    return target.send(post(body(), length=length))


@attack
def smuggling(target: Target, draw: random.Random) -> bytes:
    """A length and chunks at once: a second request must not hide in the first."""
    return target.send(
        post(b"0\r\n\r\nGET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", b"Transfer-Encoding: chunked")
    )


@attack
def line_feed_in_header(target: Target, draw: random.Random) -> bytes:
    return target.send(post(body(), draw.choice([b"X: a\nY: b", b"X: a\x00b", b"X\n: a", b"X : a", b": a"])))


@attack
def odd_request_line(target: Target, draw: random.Random) -> bytes:
    line = draw.choice(ODD_LINES)
    return target.send(line + b"\r\nHost: localhost\r\n\r\n")


@attack
def deep_nesting(target: Target, draw: random.Random) -> bytes:
    depth = draw.choice([200, 900, 960, 100_000])
    nested = b"[" * depth + b"]" * depth
    return target.send(post(b'{"model": "tiny@sc", "messages": [{"role": "user", "content": %s}]}' % nested))


@attack
def odd_numbers(target: Target, draw: random.Random) -> bytes:
    value: Any = draw.choice([-1, 0, 10**400, 1e308, 2**63, True, "7", [], {}, None])
    name = draw.choice(["n", "max_tokens", "seed", "temperature", "top_p", "stream", "stop", "sureenough"])
    return target.send(post(body(**{name: value, "model": draw.choice(["tiny", "tiny@sc"])})))


@attack
def pipelined(target: Target, draw: random.Random) -> bytes:
    return target.send(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n" * 50)


@attack
def disconnect(target: Target, draw: random.Random) -> bytes:
    """In the middle of the upload, before the response, or in the middle of it."""
    content = post(body(stream=draw.random() < 0.5, model=draw.choice(["tiny", "tiny@sc"])))
    with target.connect() as connection:
        connection.sendall(content[: draw.choice([len(content) // 2, len(content) - 1, len(content)])])
        time.sleep(draw.choice([0, 0.01, 0.05]))
        if draw.random() < 0.5:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")  # a reset, not an end
    return b""


@attack
def half_close(target: Target, draw: random.Random) -> bytes:
    received = []
    with target.connect() as connection:
        connection.sendall(post(body()))
        connection.shutdown(socket.SHUT_WR)
        received.append(read_some(connection))
    return b"".join(received)


@attack
def does_not_read(target: Target, draw: random.Random) -> bytes:
    with target.connect(small_buffer=True) as connection:
        connection.sendall(post(body(stream=True, model=draw.choice(["tiny", "tiny@sc"]), sureenough=None)))
        time.sleep(min(2.5, target.seconds))
    return b""
