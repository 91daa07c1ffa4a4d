"""GGUF files for tests: heads with any keys, written by hand."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any


def text(value: str) -> bytes:
    """A string as GGUF has it."""
    raw = value.encode()
    return struct.pack("<Q", len(raw)) + raw


def typed(value: Any) -> bytes:
    """A value after its type."""
    match value:
        case str():
            return struct.pack("<I", 8) + text(value)
        case bool():
            return struct.pack("<I?", 7, value)
        case int():
            return struct.pack("<II", 4, value)
        case float():
            return struct.pack("<If", 6, value)
        case [str(), *_]:
            return struct.pack("<IIQ", 9, 8, len(value)) + b"".join(map(text, value))
        case _:
            return struct.pack(f"<IIQ{len(value)}I", 9, 4, len(value), *value)


def head(keys: Mapping[str, Any], version: int = 3, tensors: int = 0) -> bytes:
    """The head of a file."""
    pairs = b"".join(text(name) + typed(value) for name, value in keys.items())
    return b"GGUF" + struct.pack("<IQQ", version, tensors, len(keys)) + pairs


QWEN: Mapping[str, Any] = {
    "general.architecture": "qwen3",
    "general.name": "a model",
    "qwen3.context_length": 4096,
    "qwen3.embedding_length": 256,
    "qwen3.block_count": 6,
    "qwen3.attention.head_count": 4,
    "qwen3.attention.head_count_kv": 2,
    "qwen3.attention.key_length": 64,
    "qwen3.attention.value_length": 64,
    "tokenizer.ggml.tokens": ["a", "b", "c"],
    "tokenizer.ggml.scores": list(range(2000)),
}
