"""At which stop text a reply ended: what servers say of it, and what their last tokens show.

One event per continuation is read for this, with the texts of candidates, which wire.py skips in all events.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Final

import msgspec

from sureenough.engines.openai.wire import Delta
from sureenough.engines.requests import ExtendOptions


class _Token(msgspec.Struct, gc=False):
    id: int | None = None
    token: str = ""


class _Sampled(_Token, gc=False):
    top_logprobs: list[_Token] = []


class _Logprobs(msgspec.Struct, gc=False):
    content: list[_Sampled] = []


class _Choice(msgspec.Struct, gc=False):
    delta: Delta | None = None
    logprobs: _Logprobs | None = None
    index: int = 0


class _Event(msgspec.Struct, gc=False):
    choices: list[_Choice] = []


_decoder: Final = msgspec.json.Decoder(_Event)

LINE_CANDIDATES: Final = 5
"""Per token of a line, if only they show what ended it: the sampled token is nearly always among them."""


def few_candidates(options: ExtendOptions, says: bool) -> int:
    """How many to request if confidence is not needed. `says`: whether the server says what ended a reply."""
    needed = options.stop and not says
    return LINE_CANDIDATES if needed else 1  # not 0, which servers may take for no log-probabilities


def whole_stop_text(data: bytes, said: str | None) -> str | None:
    """The stop text that ended a reply, with what its token has after it.

    Args:
        data: the last event with tokens; empty if there is none.
        said: the stop text as the server says it; empty if the model ended the reply, None if the server does not say.

    vLLM says it, and does not cut the token. llama.cpp does not say it, and cuts the text of the last token, but not
    that of the same token among its candidates. It does not send a token that is nothing but a stop text, as it does
    not send the one by which a model ends: then it stays unknown.
    """
    choice = _choice(data) if data and said != "" else None
    if choice is None or choice.logprobs is None or not choice.logprobs.content:
        return said
    tokens, delta = choice.logprobs.content, choice.delta or Delta()
    if said is not None:
        shown = delta.content or delta.reasoning_content or delta.reasoning or ""
        return to_end_of_token(said, len(shown), [token.token for token in tokens])
    last = tokens[-1]
    whole = [other.token for other in last.top_logprobs if other.id is not None and other.id == last.id]
    rests = [text.removeprefix(last.token) for text in whole if text != last.token and text.startswith(last.token)]
    return rests[0] if rests else None


def to_end_of_token(stop: str, start: int, texts: Sequence[str]) -> str:
    """A stop text with what its last token has after it, if it begins at this place of the tokens' texts."""
    whole = "".join(texts)
    if not whole.startswith(stop, start):
        return stop
    return whole[start : next(end for end in accumulate(map(len, texts)) if end >= start + len(stop))]


def _choice(data: bytes) -> _Choice | None:
    try:
        choices = _decoder.decode(data).choices
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):  # wire.py has read what it can
        return None
    return next((choice for choice in reversed(choices) if choice.index == 0), None)
