"""Server-sent events from raw bytes, however they were cut: what each event carries as data."""

from __future__ import annotations

from typing import Final

from sureenough.errors import EngineError

LARGEST: Final = 16 << 20
"""Bytes that an event may have; a server that sends more without a line's end is not speaking this protocol."""


class SSEParser:
    """Feed it bytes as they come; it gives back whole events."""

    __slots__ = ("_data", "_rest")

    def __init__(self) -> None:
        self._rest = b""  # the line that is not finished yet
        self._data: list[bytes] = []  # data lines of the event that is not finished yet

    def feed(self, raw: bytes) -> list[bytes]:
        """The data of every event that these bytes finish."""
        found: list[bytes] = []
        if b"\r" in raw or self._rest.endswith(b"\r"):
            raw = self._rest + raw
            whole = raw[:-1] if raw.endswith(b"\r") else raw  # its line feed may still come
            raw = whole.replace(b"\r\n", b"\n").replace(b"\r", b"\n") + raw[len(whole) :]
            self._events(raw, 0, found)
        elif self._rest and (end := raw.find(b"\n") + 1):
            self._events(self._rest + raw[:end], 0, found)
            self._events(raw, end, found)
        else:
            self._events(self._rest + raw if self._rest else raw, 0, found)
        if len(self._rest) > LARGEST:
            raise EngineError(f"the server sent {len(self._rest):,} bytes without an event's end")
        return found

    def end(self) -> list[bytes]:
        """What is left when the stream ends: servers forget the last blank line."""
        found: list[bytes] = []
        self._events(self._rest.rstrip(b"\r") + b"\n\n", 0, found)
        return found

    def _events(self, raw: bytes, at: int, found: list[bytes]) -> None:
        """Lines from here on; they are found, not split off: splitting looks at every byte in turn."""
        data, find, starts = self._data, raw.find, raw.startswith
        while (end := find(b"\n", at)) >= 0:
            if at == end:
                if data:
                    found.append(data[0] if len(data) == 1 else b"\n".join(data))
                    data.clear()
            elif starts(b"data:", at):
                data.append(raw[at + 6 : end] if starts(b" ", at + 5) else raw[at + 5 : end])
            at = end + 1
        self._rest = raw[at:]
