"""The replies to a ranking by difficulty, on disk as they arrive: a ranking that was stopped asks for the rest only."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Annotated, Any, NamedTuple
from zlib import crc32

import msgspec

from sureenough.errors import TraceError
from sureenough.pools.json_lines import JsonLinesFile, Line


class Reply(NamedTuple):
    """The order of one batch, from easy to hard; None if the reply cannot be read."""

    order: list[int] | None
    tokens: int
    prompt_tokens: int


Count = Annotated[int, msgspec.Meta(ge=0, lt=1 << 53)]


class _ReplyLine(msgspec.Struct):
    batch: Count
    order: list[int] | None
    tokens: Count
    prompt_tokens: Count


def question_terms(questions: Sequence[tuple[str, str]]) -> str:
    """What a journal keeps of its questions: how many there are, and a checksum of their ids and texts."""
    return f"{len(questions)} (checksum {crc32(json.dumps(questions).encode()):08x})"


class ReplyJournal(AbstractContextManager["ReplyJournal"]):
    """Append replies by the number of their batch; read them back. The first line says what was ranked and how."""

    def __init__(self, file: Path, terms: dict[str, Any]) -> None:
        self.file = file
        self._lines = JsonLinesFile(file, terms, "replies", "reply")

    def __len__(self) -> int:
        return self._lines.count

    def replies(self, sizes: Sequence[int]) -> dict[int, Reply]:
        """What has arrived so far, by batch, of batches that have these sizes."""
        return dict(self._read(line, sizes, offset) for offset, line in self._lines)

    def add(self, number: int, reply: Reply) -> None:
        """Append one reply; it is on disk when this returns."""
        self._lines.add({"batch": number, **reply._asdict()})

    def remove(self) -> None:
        """Delete the file: the ranking is written, or cannot be made."""
        self._lines.close()  # Windows removes no open files
        self.file.unlink(missing_ok=True)

    def __exit__(self, *_: object) -> None:
        self._lines.close()

    def _read(self, line: Line, sizes: Sequence[int], offset: int) -> tuple[int, Reply]:
        try:
            read = msgspec.convert(line, _ReplyLine)
            size = sizes[read.batch]
            if read.order is not None and sorted(read.order) != list(range(size)):
                raise self._damaged(offset)
        except (msgspec.ValidationError, IndexError):
            raise self._damaged(offset) from None
        return read.batch, Reply(read.order, read.tokens, read.prompt_tokens)

    def _damaged(self, offset: int) -> TraceError:
        return TraceError(f"{self.file}, at byte {offset}: the line is not a reply; remove it to keep the rest")
