"""Who ended a reply, a stop text or the model, if the server does not say so."""

from __future__ import annotations

from typing import Final

import msgspec


class _Token(msgspec.Struct, gc=False):
    id: int | None = None
    token: str = ""


class _Sampled(_Token, gc=False):
    top_logprobs: list[_Token] = []


class _Logprobs(msgspec.Struct, gc=False):
    content: list[_Sampled] | None = None


class _Choice(msgspec.Struct, gc=False):
    logprobs: _Logprobs | None = None


class _Event(msgspec.Struct, gc=False):
    choices: list[_Choice] = []


_decoder: Final = msgspec.json.Decoder(_Event)


def cut_by_stop_text(data: bytes) -> bool | None:
    """Whether a stop text ended the reply within the last token of this event; None if that cannot be seen.

    llama.cpp cuts the text of such a token, but not that of the same token among its candidates. A token that is
    nothing but a stop text is not sent at all, as the one by which a model ends its reply.
    """
    try:
        choices = _decoder.decode(data).choices
    except msgspec.ValidationError:
        return None
    logprobs = choices[-1].logprobs if choices else None
    if logprobs is None or not logprobs.content:
        return None
    last = logprobs.content[-1]
    whole = (other.token for other in last.top_logprobs if other.id is not None and other.id == last.id)
    return True if any(text != last.token and text.startswith(last.token) for text in whole) else None
