"""Server-sent events from raw bytes, wherever these are split: the data of each event."""

from __future__ import annotations

from typing import Final

from sureenough.errors import EngineError

LARGEST_EVENT: Final = 2 << 20
"""Bytes of one event, unfinished lines included. The log-probabilities of 25 tokens take about 36,000."""


class SSEParser:
    """Takes bytes as they arrive and returns the data of complete events."""

    __slots__ = ("_data", "_data_size", "_partial", "_partial_size")

    def __init__(self) -> None:
        self._partial: list[bytes] = []  # pieces of the line that is not complete yet
        self._partial_size = 0
        self._data: list[bytes] = []  # data lines of the event that is not complete yet
        self._data_size = 0

    def feed(self, raw: bytes) -> list[bytes]:
        events: list[bytes] = []
        if self._partial:
            self._keep(raw)
            if b"\n" in raw or b"\r" in raw or self._partial[-2].endswith(b"\r"):
                raw = b"".join(self._partial)  # not before the line ends: it may come in many pieces
                self._partial.clear()
                self._partial_size = 0
            else:
                raw = b""
        if b"\r" in raw:
            whole = raw[:-1] if raw.endswith(b"\r") else raw  # its line feed may still come
            raw = whole.replace(b"\r\n", b"\n").replace(b"\r", b"\n") + raw[len(whole) :]
        data, find, starts, at = self._data, raw.find, raw.startswith, 0
        while (end := find(b"\n", at)) >= 0:  # lines are searched for instead of split off, which visits every byte
            if at == end:
                if data:
                    events.append(data[0] if len(data) == 1 else b"\n".join(data))
                    data.clear()
                    self._data_size = 0
            elif starts(b"data:", at):
                data.append(raw[at + 6 : end] if starts(b" ", at + 5) else raw[at + 5 : end])
                self._data_size += end - at
            at = end + 1
        if at < len(raw):
            self._keep(raw[at:])
        if self._partial_size + self._data_size > LARGEST_EVENT:
            raise EngineError(f"the server sent an event of more than {LARGEST_EVENT:,} bytes, which is the limit")
        return events

    def end(self) -> list[bytes]:
        """The event that is left when the stream ends: some servers omit the last blank line."""
        return self.feed(b"\n\n")

    def _keep(self, piece: bytes) -> None:
        self._partial.append(piece)
        self._partial_size += len(piece)
