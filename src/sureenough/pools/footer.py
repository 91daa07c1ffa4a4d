"""What a Parquet file's footer promises, read with bounds of our own before pyarrow reads the file.

pyarrow ends the process at some damaged descriptions of columns, and a few bytes can promise any number of values.
"""

from __future__ import annotations

import io
import struct
from typing import Any, Final, NamedTuple

from sureenough.errors import TraceError

LARGEST_FOOTER: Final = 64 << 20
FREE_VALUES: Final = 4_000_000
VALUES_PER_BYTE: Final = 64
"""A file may hold `FREE_VALUES`, and so many more per byte; recorded signals take at least one byte per value."""
_DEEPEST: Final = 16
_TAIL: Final = 8  # the footer's length, and "PAR1"


class Chunk(NamedTuple):
    """One column of one row group."""

    path: str  # with dots: a list of numbers is conf.list.element
    values: int
    nulls: int


class Footer(NamedTuple):
    chunks: list[Chunk]

    def listed(self, column: str) -> int:
        """Values that are not null in the lists of a column."""
        lists = (chunk for chunk in self.chunks if chunk.path.startswith(f"{column}."))
        return sum(chunk.values - chunk.nulls for chunk in lists)


def read_footer(file: Any, name: str) -> Footer:
    """From an open file that can seek.

    Raises:
        TraceError: it is not whole, or promises more values than a recording of its size can hold.
    """
    size = file.seek(0, io.SEEK_END)
    length = 0
    if size >= _TAIL:
        file.seek(size - _TAIL)
        length, magic = struct.unpack("<I4s", file.read(_TAIL))
    if not 0 < length <= min(size - _TAIL, LARGEST_FOOTER) or magic != b"PAR1":
        raise _not_whole(name)
    file.seek(size - _TAIL - length)
    try:
        footer = Footer([_chunk(one[3]) for group in _Thrift(file.read(length)).struct(0)[4] for one in group[1]])
    except (LookupError, TypeError, AttributeError, ValueError, struct.error):
        raise _not_whole(name) from None
    promised = sum(chunk.values for chunk in footer.chunks)
    if promised > FREE_VALUES + VALUES_PER_BYTE * size:
        raise TraceError(
            f"{name} promises {promised:.3g} values in {size:,} bytes, more than recorded paths can hold; "
            "give a pool that sureenough has written"
        )
    return footer


def _not_whole(name: str) -> TraceError:
    return TraceError(
        f"{name} is not a whole Parquet file; give a pool of recorded paths, and copy it again if it was cut"
    )


def _chunk(column: dict[int, Any]) -> Chunk:
    chunk = Chunk(b".".join(column[3]).decode(), column[5], column.get(12, {}).get(3, 0))
    if not 0 <= chunk.nulls <= chunk.values < 2**48:
        raise ValueError(chunk)
    return chunk


class _Thrift:
    """Thrift's compact protocol: a struct is a dict by field number. Every step takes at least one byte."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def struct(self, depth: int) -> dict[int, Any]:
        fields: dict[int, Any] = {}
        number = 0
        while header := self._byte():
            number = number + (header >> 4) if header >> 4 else self._integer()
            kind = header & 15
            fields[number] = kind == 1 if kind in (1, 2) else self._value(kind, depth)
        return fields

    def _value(self, kind: int, depth: int) -> Any:
        if depth > _DEEPEST:
            raise ValueError(depth)
        match kind:
            case 1 | 2 | 3:
                return self._byte()
            case 4 | 5 | 6:
                return self._integer()
            case 7:
                return self._take(8)
            case 8:
                return self._take(self._varint())
            case 9 | 10:
                header = self._byte()
                count = header >> 4 if header >> 4 < 15 else self._varint()
                return [self._value(header & 15, depth + 1) for _ in range(count)]
            case 12:
                return self.struct(depth + 1)
        raise ValueError(kind)  # maps are not part of Parquet's footers

    def _byte(self) -> int:
        self._at += 1
        return self._data[self._at - 1]

    def _take(self, count: int) -> bytes:
        self._at += count
        if self._at > len(self._data):
            raise ValueError(count)
        return self._data[self._at - count : self._at]

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7
            if shift > 63:
                raise ValueError(shift)

    def _integer(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)
