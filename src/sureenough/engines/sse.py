"""Server-sent events from raw bytes, however they were cut: what each event carries as data."""

from __future__ import annotations

from typing import Final

from sureenough.errors import EngineError

LARGEST: Final = 16 << 20
"""Bytes that an event may have; a server that sends more without a line's end is not speaking this protocol."""


class Events:
    """Feed it bytes as they come; it gives back whole events."""

    __slots__ = ("_data", "_rest")

    def __init__(self) -> None:
        self._rest = b""  # the line that is not finished yet
        self._data: list[bytes] = []  # data lines of the event that is not finished yet

    def feed(self, raw: bytes) -> list[bytes]:
        """The data of every event that these bytes finish."""
        raw = self._rest + raw
        if b"\r" in raw:
            whole = raw[:-1] if raw.endswith(b"\r") else raw  # its line feed may still come
            raw = whole.replace(b"\r\n", b"\n").replace(b"\r", b"\n") + raw[len(whole) :]
        lines = raw.split(b"\n")
        self._rest = lines.pop()
        if len(self._rest) > LARGEST:
            raise EngineError(f"the server sent {len(self._rest):,} bytes without an event's end")
        return self._events(lines)

    def end(self) -> list[bytes]:
        """What is left when the stream ends: servers forget the last blank line."""
        rest, self._rest = self._rest.rstrip(b"\r"), b""
        return self._events([rest, b""])

    def _events(self, lines: list[bytes]) -> list[bytes]:
        found = []
        data = self._data
        for line in lines:
            if line[:5] == b"data:":
                data.append(line[6:] if line[5:6] == b" " else line[5:])
            elif not line and data:
                found.append(data[0] if len(data) == 1 else b"\n".join(data))
                data.clear()
        return found
