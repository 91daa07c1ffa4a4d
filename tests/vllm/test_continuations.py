"""What vLLM in this process receives for a continuation: the ids that it sampled, not the text encoded again."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

import sureenough as se
from sureenough.engines.base import ExtendOptions, Prompt, as_part
from sureenough.vllm import engine as in_process
from sureenough.vllm.sampled_tokens import SampledTokens, TokenTexts
from tests.engines.test_reply import AB, BLANK_LINE, C_STOP, END_OF_LINE, SPECIAL, Merging, ids_of

PROMPT_IDS = [1, 2, 3]
PROMPT = Prompt.user("?")
OPTIONS = ExtendOptions(max_tokens=40)
Pieces = list[list[int]]


class Chatting(Merging):
    """Has a chat template."""

    def apply_chat_template(self, *_: object, **__: object) -> list[int]:
        return PROMPT_IDS


class Sampler:
    """A loaded model that samples what it is told to, and remembers the ids that it was sent."""

    model_config = SimpleNamespace(max_model_len=4096)

    def __init__(self, sampled: Any) -> None:
        self.engine = self
        self.tokenizer = Chatting()
        self.token_texts = TokenTexts(self.tokenizer)
        self.sampled = SampledTokens(self.token_texts)
        self._sampled = sampled
        self.requests: list[list[int]] = []  # beginnings, without the prompt
        self.replies: list[list[int]] = []  # what was sampled after them

    def acquire(self) -> None:
        """It is always loaded."""

    release = acquire

    async def generate(self, inputs: dict[str, list[int]], params: Any, _: str) -> AsyncIterator[Any]:
        ids = inputs["prompt_token_ids"]
        assert ids[: len(PROMPT_IDS)] == PROMPT_IDS
        self.requests.append(ids[len(PROMPT_IDS) :])
        pieces: Pieces = self._sampled(params)
        self.replies.append([token for piece in pieces for token in piece])
        ended = self.replies[-1][-1] == SPECIAL or params.stop
        for number, piece in enumerate(pieces, 1):
            places = range(len(piece))
            logprobs = SimpleNamespace(
                logprobs=[-0.5] * len(piece), start_indices=list(places), end_indices=[place + 1 for place in places]
            )
            finish = None if number < len(pieces) else "stop" if ended else "length"
            text = self.text([piece]).split(params.stop[0])[0] if params.detokenize and params.stop else ""
            delta = SimpleNamespace(token_ids=piece, finish_reason=finish, text=text, logprobs=logprobs)
            delta.stop_reason = params.stop[0] if finish == "stop" and piece[-1] != SPECIAL else None
            yield SimpleNamespace(outputs=[delta], num_cached_tokens=0)
            await asyncio.sleep(0)

    def text(self, pieces: Pieces) -> str:
        return self.token_texts.decoded(token for piece in pieces for token in piece)


def loaded(sampled: Any, monkeypatch: pytest.MonkeyPatch) -> tuple[in_process.VLLM, Sampler]:
    monkeypatch.setattr(in_process, "check_version", lambda: None)
    engine, sampler = in_process.VLLM("tiny"), Sampler(sampled)
    monkeypatch.setattr(engine, "_loaded", sampler)

    def params(_: int, seed: int, *, changes: dict[str, Any], **__: Any) -> Any:
        return SimpleNamespace(**{"stop": [], "detokenize": True, "max_tokens": 99} | changes, seed=seed)

    monkeypatch.setattr(engine, "_params", params)
    return engine, sampler


def scripted(monkeypatch: pytest.MonkeyPatch, *replies: Pieces) -> tuple[in_process.VLLM, Sampler]:
    remaining = iter(replies)
    return loaded(lambda params: next(remaining), monkeypatch)


async def continued(engine: in_process.VLLM, beginning: Any, options: ExtendOptions = OPTIONS, **prompt: Any) -> Any:
    """The text of a continuation, and its last chunk."""
    options = replace(options, confidence=False)
    chunks = [as_part(one) async for one in engine.extend(replace(PROMPT, **prompt), beginning, options, seed=1)]
    return "".join(chunk.text for chunk in chunks), chunks[-1]


def test_a_continuation_is_continued_with_the_ids_that_were_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, sampler = scripted(monkeypatch, [[*b"ab"], [ord("c")]], [[ord(".")]], [[SPECIAL]])

    async def use() -> None:
        assert (await continued(engine, ""))[0] == "abc"
        text, last = await continued(engine, "abc")
        assert (text, last.prompt_tokens) == (".", len(PROMPT_IDS) + 3)
        await continued(engine, "abc.")

    asyncio.run(use())
    assert sampler.requests == [[], [*b"abc"], [*b"abc."]]
    assert ids_of("abc") != [*b"abc"]


def test_a_line_that_ended_at_a_stop_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such a line is decoded by vLLM, and lacks the line feed, which is part of its last token."""
    engine, sampler = scripted(monkeypatch, [[*b"ab"], [END_OF_LINE]], [[SPECIAL]], [[SPECIAL]], [[AB, BLANK_LINE]])
    line = replace(OPTIONS, stop=("\n",))

    async def use() -> None:
        text, last = await continued(engine, "", line)
        assert (text, last.stop_text) == ("ab.", "\n")
        assert (await continued(engine, "ab.\n"))[1].stop_text == "", "the model ended it"
        await continued(engine, "ab.")
        text, last = await continued(engine, "", line)
        assert (text, last.stop_text) == ("ab", "\n\n")

    asyncio.run(use())
    assert sampler.requests == [[], [*b"ab", END_OF_LINE], [*b"ab."], []]


def test_ids_of_a_beginning_are_sent_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, sampler = scripted(monkeypatch, [[*b"ab"]], [[C_STOP]], [[SPECIAL]])

    async def use() -> None:
        await continued(engine, "")
        _, last = await continued(engine, [AB])
        assert last.prompt_tokens == len(PROMPT_IDS) + 1
        await continued(engine, "abc.")

    asyncio.run(use())
    assert sampler.requests == [[], [AB], [AB, C_STOP]]


def lines(params: Any) -> Pieces:
    """Short lines of letters that the tokenizer would merge, up to the limits of the request.

    A line feed may be one token with a full stop before it, or with a second line feed.
    """
    draw = random.Random(params.seed)
    ends = [draw.randint(2, 5) for _ in range(1 if params.stop else draw.randint(1, 4))]
    feeds = [ord("\n"), END_OF_LINE, BLANK_LINE]
    tokens = [token for end in ends for token in (*draw.choices([*b"abab", AB], k=end), draw.choice(feeds))]
    if not params.stop:
        tokens.append(SPECIAL)
    return [[token] for token in tokens[: params.max_tokens]]


SEARCHES = [
    "predictive+sc:runs=3,rollouts=3,rollout_tokens=9,max_steps=4",
    "phi+sc:runs=2,beams=2,rollouts=2,min_steps=2,max_steps=3",
    "mur+sc:runs=3,candidates=2,max_steps=4",
]


@pytest.mark.parametrize("strategy", SEARCHES)
def test_a_search_sends_only_ids_that_were_sampled(strategy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    engine, sampler = loaded(lines, monkeypatch)
    out = asyncio.run(se.aask(PROMPT, engine, strategy, parallel=4, window=4, extract=lambda text: text[:1] or None))
    assert out.failed == 0
    sequences: list[list[int]] = []
    for beginning, reply in zip(sampler.requests, sampler.replies, strict=True):
        assert not beginning or any(earlier[: len(beginning)] == beginning for earlier in sequences)
        sequences.append([*beginning, *reply])
    texts = {tuple(one): sampler.text([one]) for one in sampler.requests}
    assert any(list(ids) != ids_of(text) for ids, text in texts.items()), "encoded again, these were others"
    assert out.tokens.total == sum(map(len, sampler.replies))
