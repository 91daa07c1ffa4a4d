"""The head of a GGUF file is read for its sizes; whatever else a file is, it is refused by name."""

from __future__ import annotations

import struct
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sureenough.engines.local.gguf import header, parts
from sureenough.errors import UsageError
from tests.engines.ggufs import QWEN, head


def written(folder: Path, data: bytes, name: str = "model.gguf") -> Path:
    file = folder / name
    file.write_bytes(data)
    return file


def test_sizes_of_a_model(tmp_path: Path) -> None:
    found = header(written(tmp_path, head(QWEN)))
    assert (found.architecture, found.context, found.vocabulary) == ("qwen3", 4096, 3)
    assert found.cache_bytes == 2 * 6 * 2 * (64 + 64), "16 bits, layers, heads, keys and values"
    assert found.bytes == len(head(QWEN))


@pytest.mark.parametrize(
    ("changed", "cache"),
    [
        ({"qwen3.attention.head_count_kv": [2, 0, 2, 0, 2, 0]}, 2 * 6 * 128),
        ({"qwen3.attention.key_length": "odd"}, 2 * 12 * 128),
        ({"qwen3.block_count": 0}, 0),
    ],
)
def test_models_that_are_not_alike(changed: dict[str, Any], cache: int, tmp_path: Path) -> None:
    assert header(written(tmp_path, head({**QWEN, **changed}))).cache_bytes == cache


def test_parts_count_together(tmp_path: Path) -> None:
    first = written(tmp_path, head(QWEN), "m-00001-of-00002.gguf")
    with pytest.raises(UsageError, match=r"m-00002-of-00002\.gguf is missing; the model has 2 files"):
        header(first)
    written(tmp_path, b"x" * 1000, "m-00002-of-00002.gguf")
    assert header(first).bytes == len(head(QWEN)) + 1000
    assert [part.name for part in parts(first)] == ["m-00001-of-00002.gguf", "m-00002-of-00002.gguf"]


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "is not a GGUF file"),
        (b"<!doctype html>", "is not a GGUF file"),
        (b"GGUF", "damaged"),
        (head(QWEN)[:100], "damaged"),
        (head(QWEN)[:200], "longer than the file"),
        (head(QWEN, version=9), "version 9; 2 and 3 are known"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 2**60), "damaged"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", 2**62), "longer than the file"),
        (head({})[:16] + struct.pack("<QQ", 1, 1) + b"k" + struct.pack("<IIQ", 9, 4, 2**61), "longer than the file"),
        (head({})[:16] + struct.pack("<QQ", 1, 1) + b"k" + struct.pack("<IIQ", 9, 9, 1) * 5000, "a list of lists"),
        (head({})[:16] + struct.pack("<QQ", 1, 1) + b"k" + struct.pack("<I", 77), "unknown kind 77"),
    ],
)
def test_files_that_are_not_models(data: bytes, says: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as raised:
        header(written(tmp_path, data))
    assert says in str(raised.value).replace(str(tmp_path), "")  # the folder has the test's parameters in its name


@given(st.binary(max_size=200), st.integers(0, 400))
def test_any_bytes_are_refused_with_our_error(tmp_path_factory: pytest.TempPathFactory, noise: bytes, at: int) -> None:
    good = head(QWEN)[:600]
    file = written(tmp_path_factory.mktemp("noise"), good[:at] + noise)
    with suppress(UsageError):
        header(file)


def test_a_folder_or_nothing(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="a folder, not a GGUF file"):
        header(tmp_path)
    with pytest.raises(UsageError, match=r"gone\.gguf is missing: give the path of a GGUF file, hf:OWNER/NAME"):
        header(tmp_path / "gone.gguf")
