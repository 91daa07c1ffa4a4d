"""Texts of whole replies: decoded at once, and the same as vLLM's, which decodes token by token."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sureenough.vllm.middleware import FEWEST, WholeTexts, decode_whole_texts
from tests.vllm.stored import replace_modules

BYTES = st.lists(st.sampled_from([*b"ab 7", *"é😀".encode()]), max_size=4 * FEWEST)
END = 256


class Stream:
    """Like the decoder of `tokenizers` for tokens that are bytes: text appears when its last character is complete."""

    def __init__(self) -> None:
        self.pending = b""
        self.calls = 0

    def step(self, tokenizer: Any, ids: int | list[int]) -> str | None:
        self.calls += 1
        self.pending += bytes(one for one in ([ids] if isinstance(ids, int) else ids) if one != END)
        text = self.pending.decode(errors="replace")
        if not text or text.endswith("\N{REPLACEMENT CHARACTER}"):
            return None
        self.pending = b""
        return text


class OneByOne:
    """What vLLM's detokenizer does."""

    def __init__(self, **changes: Any) -> None:
        self.stream: Any = Stream()
        self.tokenizer = None
        self.token_ids: list[int] = []
        self.stop: list[str] = []
        self.output_text, self.spaces_between_special_tokens = "", True
        vars(self).update(changes)

    def update(self, new_token_ids: list[int], stop_terminated: bool) -> None:
        for number, token in enumerate(new_token_ids, 1):
            self.token_ids.append(token)
            if not (stop_terminated and number == len(new_token_ids)):
                self.output_text += self.stream.step(self.tokenizer, token) or ""


class AtOnce(WholeTexts, OneByOne):
    pass


@given(st.lists(BYTES, max_size=3), st.booleans())
def test_texts_are_the_same_whether_characters_are_complete_or_not(parts: list[list[int]], stopped: bool) -> None:
    at_once, one_by_one = AtOnce(), OneByOne()
    for part in [*parts, [97, END]]:
        at_once.update(part, stopped)
        one_by_one.update(part, stopped)
        assert (at_once.output_text, at_once.token_ids) == (one_by_one.output_text, one_by_one.token_ids)


@pytest.mark.parametrize("stopped", [True, False])
def test_a_whole_reply_is_decoded_by_one_call(stopped: bool) -> None:
    detokenizer = AtOnce()
    detokenizer.update([*b"the answer is 7.", *b"!" * 100, END], stopped)
    assert detokenizer.output_text == "the answer is 7." + "!" * 100
    assert detokenizer.token_ids[-1] == END
    assert detokenizer.stream.calls == 1


@pytest.mark.parametrize(
    "changes", [{"stop": ["###"]}, {"spaces_between_special_tokens": False}], ids=["stop", "special tokens"]
)
def test_texts_in_which_single_tokens_matter_are_decoded_one_by_one(changes: dict[str, Any]) -> None:
    detokenizer = AtOnce(**changes)
    detokenizer.update([97] * 40, False)
    assert detokenizer.stream.calls == 40


class OldStream(Stream):
    def __deepcopy__(self, known: Any) -> OldStream:
        raise TypeError("cannot pickle 'tokenizers.decoders.DecodeStream' object")


class FailingStream(Stream):
    """A decoder that fails, or has no complete text, if it receives many tokens; by then it has taken them."""

    error: Exception | None = Exception("Invalid prefix encountered")

    def step(self, tokenizer: Any, ids: int | list[int]) -> str | None:
        if isinstance(ids, int):
            return super().step(tokenizer, ids)
        self.pending = b"unusable"
        if self.error is not None:
            raise self.error
        return None


class SilentStream(FailingStream):
    error = None


@pytest.mark.parametrize("stream", [OldStream, FailingStream, SilentStream])
def test_a_decoder_that_cannot_do_it_is_left_as_it_was(stream: type[Stream]) -> None:
    detokenizer = AtOnce(stream=stream())
    detokenizer.update([97] * 40, False)
    assert detokenizer.output_text == "a" * 40


def test_vllms_detokenizer_is_replaced_once_and_if_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    replace_modules(monkeypatch, {"vllm.v1.engine": {}})
    decode_whole_texts()  # this vLLM has no such module
    replace_modules(monkeypatch, {"vllm.v1.engine.detokenizer": {}})
    decode_whole_texts()  # or the class has another name
    replace_modules(monkeypatch, {"vllm.v1.engine.detokenizer": {"FastIncrementalDetokenizer": OneByOne}})
    module: Any = sys.modules["vllm.v1.engine.detokenizer"]
    decode_whole_texts()
    replaced = module.FastIncrementalDetokenizer
    decode_whole_texts()
    assert module.FastIncrementalDetokenizer is replaced
    assert replaced.__mro__[1:3] == (WholeTexts, OneByOne)
