"""JSON in UTF-8, whatever text a model sends."""

from __future__ import annotations

from typing import Any, Final

import msgspec

HOLDS_HALF: Final = "holds half of a surrogate pair (\\ud800 to \\udfff); remove it"
"""The end of an error message about text that UTF-8 cannot hold."""


def encode(data: Any) -> bytes:
    """JSON in UTF-8. Models can send halves of surrogate pairs, which UTF-8 cannot hold: pairs are joined."""
    try:
        return msgspec.json.encode(data)
    except UnicodeEncodeError:
        return msgspec.json.encode(_mended(msgspec.to_builtins(data)))


def mend(text: str) -> str:
    """The text with surrogate halves joined; a lone one becomes U+FFFD."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def has_halves(text: str) -> bool:
    """Whether it holds halves of surrogate pairs, as JSON can write them and UTF-8 cannot."""
    return mend(text) != text


def _mended(data: Any) -> Any:
    match data:
        case str():
            return mend(data)
        case dict():
            return {_mended(name): _mended(value) for name, value in data.items()}
        case list():
            return [_mended(value) for value in data]
    return data
