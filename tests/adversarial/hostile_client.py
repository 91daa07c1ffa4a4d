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
def endless_body(target: Target, draw: random.Random) -> bytes:
    piece = b"%x\r\n%s\r\n" % (65_536, b" " * 65_536)
    head = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    return target.send(head + b"Transfer-Encoding: chunked\r\n\r\n", *[piece] * 1000)


def nested(depth: int) -> bytes:
    """A request whose content is nested."""
    content = b"[" * depth + b"]" * depth
    return post(b'{"model": "tiny@sc", "messages": [{"role": "user", "content": %s}]}' % content)


def head(line: bytes) -> bytes:
    """A request without a body."""
    return line + b"\r\nHost: localhost\r\n\r\n"


HALVES = ("\ud83d", "\ude00", "\ude00\ud83d")
ONLY_CALLS = [*MESSAGES, {"role": "assistant", "tool_calls": []}]
NO_CONTENT: list[Any] = [[{"role": "user"}], [{}], [], [{"role": "user", "content": None}], None, 5, [[]], ONLY_CALLS]
LENGTHS = (b"abc", "²".encode(), b"-1", b"9" * 5000, b"1, 2", b"5\r\nContent-Length: 6", b"")
LINES = (b"GET", b"GET / HTTP/9.9", b"OPTIONS * HTTP/1.1", b"GET http://x/ HTTP/1.1", b"PRI * HTTP/2.0")
PATHS = (b"/%00", b"/\xff", b"/%ff/%d8%3d", b"/v1/models/" + b"x" * 9000, b"/reports/../../etc/passwd")
NUMBERS: list[Any] = [-1, 0, 10**400, 1e308, 2**63, True, "7", [], {}, None]
NUMBER_FIELDS = "n max_tokens seed temperature top_p stream stop sureenough".split()
PATTERNS = {"allOf": [{"pattern": rf"(?i)\pL{{{n}}}"} for n in range(1, 200)]}
EXPONENTIAL = {f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 9} for n in range(40)} | {"d40": False}
MANY_REFERENCES = {"$defs": {"e": {"enum": list(range(4_000))}}, "anyOf": [{"$ref": "#/$defs/e"}] * 3_000}
SCHEMAS: list[Any] = [PATTERNS, {"$ref": "#/$defs/d0", "$defs": EXPONENTIAL}, MANY_REFERENCES, {"$ref": "#"}, 5]
SINGLE: dict[str, list[bytes]] = {
    "heavy_schema": [
        post(body(response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}))
        for schema in SCHEMAS
    ],
    "huge_head": [post(b"{}", b"X: " + b"x" * 300_000), post(b"{}", *[b"X: y"] * 30_000)],
    "no_content": [post(body(messages=messages)) for messages in NO_CONTENT],
    "surrogates": [
        post(body(**fields))
        for half in HALVES
        for fields in ({"messages": [{"role": half, "content": half}]}, {"model": half}, {half: half}, {"stop": half})
    ],
    "not_utf_8": [
        post(content) for content in (bytes(range(256)), b'{"model": "\xff@sc"}', b"\xef\xbb\xbf{}", b"\x00")
    ],
    "huge_body": [post(b" " * 5_000_000)],
    "bad_length": [post(body(), length=length) for length in LENGTHS],
    # A length and chunks at once: a second request must not hide in the first.
    "smuggling": [post(b"0\r\n\r\nGET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", b"Transfer-Encoding: chunked")],
    "line_feed_in_header": [post(body(), line) for line in (b"X: a\nY: b", b"X: a\x00b", b"X\n: a", b"X : a", b": a")],
    "odd_request_line": [head(line) for line in (*LINES, *(b"GET %s HTTP/1.1" % path for path in PATHS))],
    "long_model": [post(body(model="x" * 900_000 + "@sc", stream=stream)) for stream in (False, True)],
    "deep_nesting": [nested(depth) for depth in (200, 900, 960, 100_000)],
    "odd_numbers": [
        post(body(**{name: value, "model": model}))
        for name in NUMBER_FIELDS
        for value in NUMBERS
        for model in ("tiny", "tiny@sc")
    ],
    "pipelined": [head(b"GET /healthz HTTP/1.1") * 50],
}
"""Faults that are one request, with their variants."""


def sent_once(variants: list[bytes]) -> Attack:
    return lambda target, draw: target.send(draw.choice(variants))


ATTACKS |= {name: sent_once(variants) for name, variants in SINGLE.items()}


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
