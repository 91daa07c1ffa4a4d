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
        """The data of every event that these bytes complete."""
        events: list[bytes] = []
        if b"\r" in raw or (self._partial and self._partial[-1].endswith(b"\r")):
            raw = self._take_partial() + raw
            whole = raw[:-1] if raw.endswith(b"\r") else raw  # its line feed may still come
            raw = whole.replace(b"\r\n", b"\n").replace(b"\r", b"\n") + raw[len(whole) :]
            self._parse(raw, 0, events)
        elif not self._partial:
            self._parse(raw, 0, events)
        elif end := raw.find(b"\n") + 1:
            self._parse(self._take_partial() + raw[:end], 0, events)
            self._parse(raw, end, events)
        else:
            self._keep(raw)
        if self._partial_size + self._data_size > LARGEST_EVENT:
            raise EngineError(f"the server sent an event of more than {LARGEST_EVENT:,} bytes, which is the limit")
        return events

    def end(self) -> list[bytes]:
        """The event that is left when the stream ends: some servers omit the last blank line."""
        events: list[bytes] = []
        self._parse(self._take_partial().rstrip(b"\r") + b"\n\n", 0, events)
        return events

    def _parse(self, raw: bytes, at: int, events: list[bytes]) -> None:
        """Parse lines from an offset. They are searched for instead of split off, which would visit every byte."""
        data, find, starts = self._data, raw.find, raw.startswith
        while (end := find(b"\n", at)) >= 0:
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

    def _keep(self, piece: bytes) -> None:
        self._partial.append(piece)
        self._partial_size += len(piece)

    def _take_partial(self) -> bytes:
        partial = b"".join(self._partial)
        self._partial.clear()
        self._partial_size = 0
        return partial
