"""HTTP/1.1 without I/O: a request as bytes, the head of a reply, and a body from raw bytes however they were cut."""

from __future__ import annotations

from typing import Final, NamedTuple

import httpx

LARGEST_LINE: Final = 65_536


class Head(NamedTuple):
    """The head of a reply."""

    status: int
    version: bytes
    headers: httpx.Headers


def request_bytes(request: httpx.Request, body: bytes) -> bytes:
    """A request as it goes out."""
    lines = [b"%s %s HTTP/1.1" % (request.method.encode(), request.url.raw_path)]
    lines += [name + b": " + value for name, value in request.headers.raw]
    if any(b"\r" in line or b"\n" in line for line in lines):
        raise httpx.LocalProtocolError("a header of the request has a line break")
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def head_of(raw: bytes) -> Head:
    """Read the head of a reply."""
    first, *lines = raw.rstrip(b"\r\n").split(b"\r\n")
    version, _, rest = first.partition(b" ")
    status = rest[:3]
    if not version.startswith(b"HTTP/1.") or not status.isdigit():
        raise httpx.RemoteProtocolError(f"not a reply of HTTP/1.1: {first[:60]!r}")
    pairs = []
    for line in lines:
        name, colon, value = line.partition(b":")
        if not colon or not name or name != name.strip():
            raise httpx.RemoteProtocolError(f"not a header: {line[:60]!r}")
        pairs.append((name, value.strip()))
    return Head(int(status), version, httpx.Headers(pairs))


class Body:
    """Feed it what comes after the head; it gives back the body's bytes and knows when it is done."""

    def __init__(self, head: Head) -> None:
        headers = head.headers
        self.chunked = headers.get("transfer-encoding", "").lower().endswith("chunked")
        length = headers.get("content-length")
        if not self.chunked and length is not None and not length.isdigit():
            raise httpx.RemoteProtocolError(f"not a length: {length[:20]!r}")
        self._left = int(length) if length is not None and not self.chunked else None  # None: until the line is closed
        self.done = head.status in (204, 304) or self._left == 0
        closing = "close" in headers.get("connection", "").lower()
        self.reusable = not closing and head.version != b"HTTP/1.0" and (self.chunked or self._left is not None)
        self._rest = b""
        self._size = 0  # bytes of the current chunk that are still to come, its line break included

    def feed(self, raw: bytes) -> bytes:
        """The body's share of these bytes."""
        if self.chunked:
            return self._chunks(raw)
        if self._left is None:
            return raw
        part = raw[: self._left]
        self._left -= len(part)
        self.done = self._left == 0
        return part

    def end(self) -> bytes:
        """The line was closed: fine only where that is how the body ends."""
        if self.chunked or self._left:
            raise httpx.RemoteProtocolError("peer closed connection without sending complete message body")
        self.done = True
        return b""

    def _chunks(self, raw: bytes) -> bytes:
        """All whole and begun chunks among these bytes, joined; views, so that bytes are copied once."""
        if self._rest:
            raw, self._rest = self._rest + raw, b""
        view, end, found = memoryview(raw), len(raw), []
        at = self._size  # where the chunk that is under way ends
        if at:
            found.append(view[: max(0, at - 2)])
        while at < end:
            line = raw.find(b"\r\n", at)
            if line < 0:
                self._rest = raw[at:]
                if len(self._rest) > LARGEST_LINE:
                    raise httpx.RemoteProtocolError("a chunk without a size")
                at = end
                break
            size = _size(raw[at:line])
            if size == 0:
                self._trailer(raw, at, line)
                at = end
                break
            start = line + 2
            at = start + size + 2
            found.append(view[start : at - 2])
        self._size = at - end
        return b"".join(found)

    def _trailer(self, raw: bytes, at: int, line: int) -> None:
        """After the last chunk come lines that nobody needs, up to an empty one."""
        if raw.find(b"\r\n\r\n", line) < 0:
            self._rest = raw[at:]
        else:
            self.done = True


def _size(line: bytes) -> int:
    digits = line.partition(b";")[0].strip()
    try:
        if not digits or not digits.isalnum():
            raise ValueError
        return int(digits, 16)
    except ValueError:
        raise httpx.RemoteProtocolError(f"not the size of a chunk: {line[:20]!r}") from None
