"""The weights as one safetensors file in pieces, and sampled paths as compressed arrays: what travels between machines.

`cat model.safetensors.* >model.safetensors` joins the pieces.
"""

from __future__ import annotations

import io
import json
import lzma
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

PIECE = 15 << 20
"""Bytes of a piece of the weights at most."""
Array = npt.NDArray[Any]


class Sampled(NamedTuple):
    """A sampled path: one byte per token, and two signals per token; the last token of a finished path has no text."""

    question: int
    number: int
    text: bytes
    peak: Array
    conf: Array
    finished: bool


def save_weights(tensors: dict[str, Any], config: dict[str, Any], folder: Path) -> None:
    """Write the tensors (16-bit, by name) and the configuration."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    data = bytearray()
    for name, tensor in sorted(tensors.items()):
        raw = np.ascontiguousarray(tensor.numpy()).tobytes()
        header[name] = {"dtype": "F16", "shape": list(tensor.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    whole = len(text).to_bytes(8, "little") + text + bytes(data)
    for old in folder.glob("model.safetensors.*"):
        old.unlink()
    for i in range(0, len(whole), PIECE):
        (folder / f"model.safetensors.{i // PIECE}").write_bytes(whole[i : i + PIECE])
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")


def load_weights(folder: Path) -> dict[str, Array]:
    """The tensors by name, from the pieces."""
    pieces = sorted(folder.glob("model.safetensors.*"), key=lambda file: int(file.suffix[1:]))
    whole = b"".join(piece.read_bytes() for piece in pieces)
    size = int.from_bytes(whole[:8], "little")
    header = json.loads(whole[8 : 8 + size])
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        start, end = (8 + size + offset for offset in entry["data_offsets"])
        tensors[name] = np.frombuffer(whole[start:end], np.float16).reshape(entry["shape"])
    return tensors


def save_paths(file: Path, paths: Iterable[Sampled]) -> None:
    """Write paths; the two bytes of each signal lie apart, which halves the file."""
    paths = list(paths)
    signals = [np.concatenate([getattr(path, name) for path in paths]).astype(np.float16) for name in ("peak", "conf")]
    arrays = {
        "question": np.array([path.question for path in paths], np.int32),
        "number": np.array([path.number for path in paths], np.int32),
        "finished": np.array([path.finished for path in paths], np.bool_),
        "tokens": np.array([len(path.conf) for path in paths], np.int32),
        "bytes": np.array([len(path.text) for path in paths], np.int32),
        "text": np.frombuffer(b"".join(path.text for path in paths), np.uint8),
        "peak": signals[0].view(np.uint8).reshape(-1, 2).T,
        "conf": signals[1].view(np.uint8).reshape(-1, 2).T,
    }  # fmt: skip
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)  # type: ignore[arg-type]
    part = file.with_suffix(".part")
    part.write_bytes(lzma.compress(buffer.getvalue(), preset=1))
    part.replace(file)


def load_paths(file: Path) -> Iterator[Sampled]:
    """The paths of a file, in their order."""
    with np.load(io.BytesIO(lzma.decompress(file.read_bytes()))) as whole:
        arrays = dict(whole)
    peak, conf = (np.ascontiguousarray(arrays[name].T).view(np.float16).ravel() for name in ("peak", "conf"))
    text = arrays["text"].tobytes()
    columns = [arrays[name].tolist() for name in ("question", "number", "tokens", "bytes", "finished")]
    at = letter = 0
    for question, number, tokens, letters, finished in zip(*columns, strict=True):
        words, own_peak, own_conf = text[letter : letter + letters], peak[at : at + tokens], conf[at : at + tokens]
        yield Sampled(question, number, words, own_peak, own_conf, finished)
        at, letter = at + tokens, letter + letters
