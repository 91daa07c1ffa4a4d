"""Models for this machine: the header of a GGUF file, read without loading it, and files of the Hugging Face hub.

Files may be damaged or hostile: sizes in them are compared with the file's own size before anything is read.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple, TypeVar

from sureenough.errors import EngineUnavailable, UsageError

MAGIC: Final = b"GGUF"
_FIXED: Final = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
_MOST_KEYS: Final = 65_536
_PART: Final = re.compile(r"^(.*)-(\d{5})-of-(\d{5})\.gguf$")


class Header(NamedTuple):
    """A model's sizes, as far as they decide how much memory it takes."""

    bytes: int  # of all files of the model
    context: int  # tokens that it was trained for
    cache_bytes: int  # of 16-bit keys and values, per token of context
    vocabulary: int


def parts(file: Path) -> list[Path]:
    split = _PART.match(file.name)
    if split is None:
        return [file]
    stem, _, many = split.groups()
    return [file.with_name(f"{stem}-{n:05}-of-{many}.gguf") for n in range(1, int(many) + 1)]


def header(file: Path) -> Header:
    """Read the header of a GGUF file; any other file is refused."""
    files = parts(file)
    missing = next((part for part in files if not part.is_file()), None)
    if missing is not None:
        reason = "a folder, not a GGUF file" if missing.is_dir() else "missing"
        fix = (
            "give the path of a GGUF file, hf:OWNER/NAME[:FILE] for one from the Hugging Face hub, or nothing for the "
            "built-in model"
        )
        if len(files) > 1:
            fix = f"the model has {len(files)} files, and all of them are needed"
        raise UsageError(f"{missing} is {reason}: {fix}")
    try:
        with file.open("rb") as source:
            if source.read(4) != MAGIC:
                raise UsageError(
                    f"{file} is not a GGUF file: it does not begin with GGUF; was it downloaded completely?"
                )
            fields = _Reader(source, file.stat().st_size).read()
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror or error}") from None
    except UsageError:
        raise
    except (struct.error, ValueError, OverflowError) as error:
        raise UsageError(f"{file} is a damaged or unknown GGUF file ({error}); was it downloaded completely?") from None
    return _header(fields, sum(part.stat().st_size for part in files))


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
    return Header(size, number("context_length"), 2 * groups * sides, fields.get("tokenizer.ggml.tokens", 0))


class _Reader:
    """Reads keys and values in order; of lists of texts and of long lists only the length."""

    def __init__(self, source: BinaryIO, size: int) -> None:
        self._source, self._size = source, size

    def read(self) -> dict[str, Any]:
        version, _, keys = self._numbers("IQQ")
        if not 2 <= version <= 3:
            raise ValueError(f"version {version}; 2 and 3 are known")
        if keys > _MOST_KEYS:
            raise ValueError(f"{keys} keys")
        return {self._text(): self._value(*self._numbers("I")) for _ in range(keys)}

    def _numbers(self, form: str) -> tuple[Any, ...]:
        form = "<" + form
        return struct.unpack(form, self._source.read(struct.calcsize(form)))

    def _text(self) -> str:
        return self._source.read(self._length()).decode("utf-8", "replace")

    def _length(self) -> int:
        (many,) = self._numbers("Q")
        if many > self._size - self._source.tell():
            raise ValueError("a text or a list is longer than the file")
        return int(many)

    def _value(self, kind: int) -> Any:
        if kind in _FIXED:
            return self._numbers(_FIXED[kind])[0]
        if kind == _STRING:
            return self._text()
        if kind != _ARRAY:
            raise ValueError(f"a value of unknown kind {kind}")
        (of,), many = self._numbers("I"), self._length()
        if of in _FIXED and many <= 1024:
            return list(self._numbers(f"{many}{_FIXED[of]}"))
        if of in _FIXED:
            self._source.seek(many * struct.calcsize("<" + _FIXED[of]), 1)
        elif of == _STRING:
            for _ in range(many):
                self._source.seek(self._length(), 1)
        else:
            raise ValueError("a list of lists")
        return many


# -- `hf:OWNER/NAME[:FILE]`: a file of a repository, downloaded once with a progress bar

HUB_PREFIX: Final = "hf:"
_FORM: Final = re.compile(r"^([\w.-]+/[\w.-]+)(?::(.+))?$")
INSTEAD: Final = "without a network, give the path of a GGUF file, or no model for the built-in one"
T = TypeVar("T")


class HubFile(NamedTuple):
    repository: str
    file: str | None


def parse_hub_name(text: str) -> HubFile:
    match = _FORM.match(text.removeprefix(HUB_PREFIX))
    if match is None:
        raise UsageError(
            f"{text!r} is not the name of a model on the hub; it looks like hf:OWNER/NAME or hf:OWNER/NAME:FILE.gguf"
        )
    return HubFile(match[1], match[2])


def fetch(text: str) -> Path:
    """The file on this machine, downloaded if it is not in the cache."""
    try:
        import huggingface_hub as hub
    except ImportError:
        raise UsageError(
            "models of the hub need the package huggingface_hub: pip install 'sureenough[local]'; or give a GGUF file"
        ) from None
    name = parse_hub_name(text)
    wanted = [] if name.file is None else parts(Path(name.file))
    cached = [hub.try_to_load_from_cache(name.repository, part.as_posix()) for part in wanted]
    if cached and all(isinstance(path, str) for path in cached):
        return Path(str(cached[0]))
    info = _call_hub(name, lambda: hub.HfApi().model_info(name.repository, timeout=10))
    file = choose_file([str(sibling.rfilename) for sibling in info.siblings or []], name)
    for part in reversed(parts(Path(file))):
        downloaded = _call_hub(name, partial(hub.hf_hub_download, name.repository, part.as_posix()))
    return Path(downloaded)


def choose_file(files: list[str], name: HubFile) -> str:
    """The file to use: the only one, or the only one with this text in its name."""
    models = [file for file in sorted(files) if file.endswith(".gguf") and "mmproj" not in file.lower()]
    models = [file for file in models if not re.search(r"-(?!0*1-of-)\d+-of-\d+\.", file)]  # without later parts
    if not models:
        raise UsageError(f"{name.repository} has no GGUF files; look for a repository that has, often named …-GGUF")
    matching = [file for file in models if name.file is None or name.file.lower() in file.lower()]
    matching = [name.file] if name.file in models else matching
    if len(matching) == 1:
        return matching[0]
    count = "no file" if not matching else f"{len(matching)} files"
    like = f" like {name.file!r}" if name.file else ""
    raise UsageError(
        f"{name.repository} has {count}{like}; choose one, as in hf:{name.repository}:{(matching or models)[0]}. "
        f"It has: {', '.join(models)}"
    )


def _call_hub(name: HubFile, call: Callable[[], T]) -> T:
    from huggingface_hub import errors

    try:
        return call()
    except (errors.RepositoryNotFoundError, errors.GatedRepoError):
        raise UsageError(f"the hub has no {name.repository}, or it needs a token (HF_TOKEN)") from None
    except errors.RemoteEntryNotFoundError:
        raise UsageError(
            f"{name.repository} has no file {name.file}; hf:{name.repository} alone lists its files"
        ) from None
    except Exception as error:  # the hub's client does not say which HTTP library it uses
        reason = " ".join(str(error).split())[:120] or type(error).__name__
        raise EngineUnavailable(f"the hub cannot be reached for {name.repository} ({reason}); {INSTEAD}") from None
