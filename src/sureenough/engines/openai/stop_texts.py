"""At which stop text a reply ended: what servers say of it, and what their last token shows."""

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


def whole_stop_text(data: bytes, said: str | None) -> str | None:
    """The stop text that ended a reply, with what its token has after it.

    Args:
        data: the last event with tokens; empty if there is none.
        said: the stop text as the server says it; empty if the model ended the reply, None if the server does not say.

    llama.cpp does not say it, and cuts the text of the last token, but not that of the same token among its candidates.
    It does not send a token that is nothing but a stop text, as it does not send the one by which a model ends: then it
    stays unknown. vLLM and SGLang say it, and do not cut the token.
    """
    last = _last_token(data) if data and said != "" else None
    if last is None:
        return said
    if said is not None:
        return said + last.token.partition(said)[2]
    whole = [other.token for other in last.top_logprobs if other.id is not None and other.id == last.id]
    rests = [text.removeprefix(last.token) for text in whole if text != last.token and text.startswith(last.token)]
    return rests[0] if rests else None


def _last_token(data: bytes) -> _Sampled | None:
    try:
        choices = _decoder.decode(data).choices
    except msgspec.ValidationError:
        return None
    logprobs = choices[-1].logprobs if choices else None
    return logprobs.content[-1] if logprobs is not None and logprobs.content else None
