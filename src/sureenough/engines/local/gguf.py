"""The header of a GGUF file, read without loading the model.

Files may be damaged or hostile: sizes in them are compared with the file's own size before anything is read.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

from sureenough.errors import UsageError

MAGIC: Final = b"GGUF"
_FIXED: Final = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
_MOST_KEYS: Final = 65_536
_PART: Final = re.compile(r"^(.*)-(\d{5})-of-(\d{5})\.gguf$")


@dataclass(frozen=True, slots=True)
class Header:
    """A model's sizes, as far as they decide how much memory it takes."""

    bytes: int  # of all files of the model
    architecture: str
    context: int  # tokens that it was trained for
    cache_bytes: int  # of 16-bit keys and values, per token of context
    vocabulary: int


def parts(file: Path) -> list[Path]:
    """All files of a model that may be split."""
    split = _PART.match(file.name)
    if split is None:
        return [file]
    stem, _, many = split.groups()
    return [file.with_name(f"{stem}-{n:05}-of-{many}.gguf") for n in range(1, int(many) + 1)]


def header(file: Path) -> Header:
    """Read the header of a GGUF file; any other file is refused."""
    missing = next((part for part in parts(file) if not part.is_file()), None)
    if missing is not None:
        reason = "a folder, not a GGUF file" if missing.is_dir() else "missing"
        if missing != file:
            raise UsageError(
                f"{missing} is {reason}; the model has {len(parts(file))} files, and all of them are needed"
            )
        raise UsageError(
            f"{missing} is {reason}: give the path of a GGUF file, hf:OWNER/NAME[:FILE] for one from the Hugging Face "
            "hub, or nothing for the built-in model"
        )
    size = file.stat().st_size
    try:
        with file.open("rb") as source:
            if source.read(4) != MAGIC:
                raise UsageError(
                    f"{file} is not a GGUF file: it does not begin with GGUF; was it downloaded completely?"
                )
            fields = _Reader(source, size).read()
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror or error}") from None
    except UsageError:
        raise
    except (struct.error, ValueError, OverflowError) as error:
        raise UsageError(f"{file} is a damaged or unknown GGUF file ({error}); was it downloaded completely?") from None
    return _header(fields, sum(part.stat().st_size for part in parts(file)))


def _header(fields: dict[str, Any], size: int) -> Header:
    name = str(fields.get("general.architecture", "?"))

    def number(key: str, default: int = 0) -> int:
        value = fields.get(f"{name}.{key}", default)
        return value if isinstance(value, int) and value >= 0 else default

    layers, heads = number("block_count"), number("attention.head_count", 1)
    shared = fields.get(f"{name}.attention.head_count_kv", heads)
    groups = sum(shared) if isinstance(shared, list) else layers * shared
    width = number("embedding_length") // max(1, heads)
    sides = number("attention.key_length", width) + number("attention.value_length", width)
    return Header(size, name, number("context_length"), 2 * groups * sides, fields.get("tokenizer.ggml.tokens", 0))


class _Reader:
    """Reads keys and values in order; of long lists only the length."""

    def __init__(self, source: BinaryIO, size: int) -> None:
        self._source, self._size = source, size

    def read(self) -> dict[str, Any]:
        version, _, keys = self._take("IQQ")
        if not 2 <= version <= 3:
            raise ValueError(f"version {version}; 2 and 3 are known")
        if keys > _MOST_KEYS:
            raise ValueError(f"{keys} keys")
        return {self._string(): self._value(*self._take("I")) for _ in range(keys)}

    def _take(self, form: str) -> tuple[Any, ...]:
        form = "<" + form
        return struct.unpack(form, self._source.read(struct.calcsize(form)))

    def _string(self) -> str:
        return self._source.read(self._length()).decode("utf-8", "replace")

    def _length(self) -> int:
        many: int = self._take("Q")[0]
        if many > self._size - self._source.tell():
            raise ValueError("a text or a list is longer than the file")
        return many

    def _value(self, kind: int) -> Any:
        if kind in _FIXED:
            return self._take(_FIXED[kind])[0]
        if kind == _STRING:
            return self._string()
        if kind == _ARRAY:
            return self._list(*self._take("I"))
        raise ValueError(f"a value of unknown kind {kind}")

    def _list(self, kind: int) -> Any:
        """The values of a short list of numbers; of any other list its length."""
        many = self._length()
        if kind in _FIXED and many <= 1024:
            return list(self._take(f"{many}{_FIXED[kind]}"))
        if kind in _FIXED:
            self._source.seek(many * struct.calcsize("<" + _FIXED[kind]), 1)
        elif kind == _STRING:
            for _ in range(many):
                self._source.seek(self._length(), 1)
        else:
            raise ValueError("a list of lists")
        return many
