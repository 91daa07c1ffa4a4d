"""vLLM in this process, with doubles of vLLM's parts: loading, paths and continuations, and how they end."""

from __future__ import annotations

import asyncio
import os
import random
import sys
import tempfile
import weakref
from collections.abc import AsyncIterator, Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any

import pytest

import sureenough as se
from sureenough.core.events import Summary
from sureenough.engines.base import End, ExtendOptions, Prompt, TokenStream, WatchOptions, as_part
from sureenough.engines.watch.protocol import SOCKET_ENV, WINDOW_ENV, WatchRequest
from sureenough.errors import EngineError, EngineRejected
from sureenough.vllm import engine as in_process
from sureenough.vllm.sampled_tokens import SampledTokens, TokenTexts
from tests.vllm.stored import replace_modules
from tests.vllm.test_sampled_tokens import AB, BLANK_LINE, END_OF_LINE, SPECIAL, Merging, ids_of

PROMPT_IDS = [1, 2, 3]
PROMPT = Prompt.user("?")
PLAIN = replace(PROMPT, signals=False)
OPTIONS = ExtendOptions(max_tokens=40, confidence=False)
Pieces = list[list[int]]


class AsyncLLM:
    """As much of vLLM's engine as a start and a stop need."""

    shutdowns = 0
    itself: AsyncLLM
    model: str
    frame: FrameType

    @classmethod
    def from_engine_args(cls, arguments: dict[str, Any]) -> AsyncLLM:
        assert os.environ[WINDOW_ENV] == "64"
        assert Path(os.environ[SOCKET_ENV]).parent.is_dir()
        if arguments["model"] == "missing":
            raise OSError("no such model")
        cls.frame = sys._getframe(1)  # as errors keep it that vLLM remembers
        engine = cls()
        engine.model = arguments["model"]
        engine.itself = engine  # as a cycle that keeps it until the collector runs
        return engine

    def get_tokenizer(self) -> object:
        if self.model == "bad":
            raise ValueError("no tokenizer")
        return object()

    def shutdown(self) -> None:
        AsyncLLM.shutdowns += 1


class Parameters(SimpleNamespace):
    """Refuses what vLLM's own do."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**{"stop": None, "detokenize": True} | given)
        if self.stop and not self.detokenize:
            raise ValueError("stop strings are only supported when detokenize is True")
        if "no_such_name" in given:
            raise TypeError("Unexpected keyword argument 'no_such_name'")


@pytest.fixture(autouse=True)
def vllm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    modules: dict[str, dict[str, Any]] = {
        "vllm": {"SamplingParams": Parameters},
        "vllm.sampling_params": {"RequestOutputKind": SimpleNamespace(DELTA=0, FINAL_ONLY=2)},
        "vllm.engine.arg_utils": {"AsyncEngineArgs": dict},
        "vllm.v1.engine.async_llm": {"AsyncLLM": AsyncLLM},
    }
    replace_modules(monkeypatch, modules)
    monkeypatch.setattr(in_process, "check_version", lambda: None)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv(WINDOW_ENV, "9")
    AsyncLLM.shutdowns = 0


# -- loading


@pytest.mark.parametrize("early", [True, False])
def test_engines_with_other_sampling_parameters_share_the_model_and_its_end(early: bool) -> None:
    async def use() -> None:
        engine = in_process.VLLM("tiny", longest_window=64)
        other = engine.sampled(temperature=1.0) if early else None
        await engine.__aenter__()
        other = other or engine.sampled(temperature=1.0)
        async with other.open(parallel=1) as opened:
            assert opened is other
            model = weakref.ref(other._loaded.engine)
            await engine.__aexit__()
            assert AsyncLLM.shutdowns == 0, "a run still uses it"
        assert AsyncLLM.shutdowns == 1
        assert model() is None, "its finaliser must not wait for the end of the interpreter"

    asyncio.run(use())


@pytest.mark.parametrize(
    ("model", "error", "shutdowns"), [("tiny", None, 1), ("missing", "no such model", 0), ("bad", "no tokenizer", 1)]
)
def test_nothing_is_left_behind(model: str, error: str | None, shutdowns: int, tmp_path: Path) -> None:
    async def use() -> None:
        async with in_process.VLLM(model, longest_window=64):
            pass

    before = dict(os.environ)
    with nullcontext() if error is None else pytest.raises((OSError, ValueError), match=error):
        asyncio.run(use())
    assert dict(os.environ) == before
    assert not list(tmp_path.iterdir())
    assert AsyncLLM.shutdowns == shutdowns


# -- paths and continuations of a model that is loaded


class Tokenizer(Merging):
    """Has a chat template, which renders every prompt as the same tokens."""

    def apply_chat_template(self, messages: Any, **_: Any) -> list[int]:
        return PROMPT_IDS


class Sampler:
    """A loaded model that samples what it is told to, and remembers the ids that it was sent."""

    model_config = SimpleNamespace(max_model_len=4096)

    def __init__(self, sampled: Callable[[Any], Pieces], finish: str | None = None) -> None:
        self.engine = self
        self.tokenizer = Tokenizer()
        self.token_texts = TokenTexts(self.tokenizer)
        self.sampled = SampledTokens(self.token_texts)
        self._sampled, self._finish = sampled, finish
        self.params: Any = None  # of the last request
        self.requests: list[list[int]] = []  # beginnings, without the prompt
        self.replies: list[list[int]] = []  # what was sampled after them

    def acquire(self) -> None:
        """It is always loaded."""

    release = acquire

    async def summary(self, request: WatchRequest | None, tokens: int) -> Summary | None:
        """No path is watched here."""
        return None

    async def generate(self, inputs: dict[str, list[int]], params: Any, _: str) -> AsyncIterator[Any]:
        """Pieces up to a stop text; the tokens of that are part of the ids and not of the text."""
        ids, self.params = inputs["prompt_token_ids"], params
        assert ids[: len(PROMPT_IDS)] == PROMPT_IDS
        self.requests.append(ids[len(PROMPT_IDS) :])
        pieces = self._sampled(params)
        self.replies.append([token for piece in pieces for token in piece])
        stops = [params.stop] if isinstance(params.stop, str) else params.stop or []
        for number, piece in enumerate(pieces, 1):
            places = range(len(piece))
            logprobs = SimpleNamespace(
                logprobs=[-0.5] * len(piece), start_indices=list(places), end_indices=[place + 1 for place in places]
            )
            text = self.text([piece]) if params.detokenize else ""
            met = next((stop for stop in stops if stop in text), None)
            last = number == len(pieces)
            finish = self._finish or ("stop" if met or piece[-1] == SPECIAL else "length") if last else None
            delta = SimpleNamespace(token_ids=piece, finish_reason=finish, logprobs=logprobs, stop_reason=met)
            delta.text = text.split(met)[0] if met else text
            yield SimpleNamespace(outputs=[delta], num_cached_tokens=1)
            await asyncio.sleep(0)

    def text(self, pieces: Pieces) -> str:
        return self.token_texts.decoded(token for piece in pieces for token in piece)


def loaded(
    sampled: Callable[[Any], Pieces], finish: str | None = None, **options: Any
) -> tuple[in_process.VLLM, Sampler]:
    engine, sampler = in_process.VLLM("tiny", **options), Sampler(sampled, finish)
    engine._loaded = sampler  # type: ignore[assignment]
    return engine, sampler


def scripted(*replies: Pieces, **options: Any) -> tuple[in_process.VLLM, Sampler]:
    remaining = iter(replies)
    return loaded(lambda params: next(remaining), **options)


def read(parts: TokenStream) -> tuple[str, Any]:
    """The text of a path or a continuation, and its last part."""

    async def use() -> list[Any]:
        return [as_part(part) async for part in parts]

    received = asyncio.run(use())
    return "".join(part.text for part in received), received[-1]


def continued(engine: in_process.VLLM, beginning: Any, options: ExtendOptions = OPTIONS) -> tuple[str, Any]:
    return read(engine.extend(PROMPT, beginning, options, seed=1))


@pytest.mark.parametrize("finish", ["stop", "length"])
def test_the_end_has_the_text_and_the_counts(finish: str) -> None:
    engine, sampler = scripted([[*b"42"]], [[*b"42"]], finish=finish)
    text, end = read(engine.stream(PLAIN, seed=1))
    assert not sampler.params.detokenize
    assert (text, end) == ("42", End(finish, "42", stop_text="", prompt_tokens=3, cached_tokens=1))
    text, end = read(engine.extend(PLAIN, "so", OPTIONS, seed=1))
    assert (text, end) == ("42", End(finish, stop_text="", prompt_tokens=5, cached_tokens=1))


def test_a_path_that_vllm_gives_up_is_an_error() -> None:
    engine, _ = loaded(lambda _: [[*b"42"]], finish="abort")
    for parts in (engine.stream(PLAIN, seed=1), engine.extend(PLAIN, "so", OPTIONS, seed=1)):
        with pytest.raises(EngineError, match="finish reason 'abort'"):
            read(parts)


def test_a_watched_path_ends_with_its_summary(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, sampler = scripted([[*b"42"]])
    seen = Summary(2, 3.0, 4.0)

    async def summary(request: WatchRequest, tokens: int) -> Summary:
        assert (request.window, tokens) == (16, 2)
        return seen

    monkeypatch.setattr(sampler, "summary", summary, raising=False)
    monkeypatch.setattr(sampler, "with_progress", lambda outputs, key: outputs, raising=False)
    text, end = read(engine.stream(replace(PROMPT, watch=WatchOptions(16, None)), seed=1))
    assert (text, end.summary, sampler.params.logprobs) == ("42", seen, None)


def test_a_prompt_is_encoded_once_and_again_when_a_message_is_changed() -> None:
    calls: list[Any] = []

    def apply(messages: list[dict[str, Any]], **_: Any) -> list[int]:
        calls.append(messages)
        return list(messages[0]["content"].encode())

    engine, message = in_process.VLLM("tiny"), {"role": "user", "content": "a"}
    engine._loaded.tokenizer = SimpleNamespace(apply_chat_template=apply)
    assert [engine._prompt_ids(Prompt((message,))) for _ in range(2)] == [[97], [97]]
    assert len(calls) == 1
    message["content"] = "b"
    assert engine._prompt_ids(Prompt((message,))) == [98]


def test_a_beginning_that_fills_the_context_is_a_path_that_was_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Sampler, "model_config", SimpleNamespace(max_model_len=4))
    engine, _ = scripted()
    assert continued(engine, "so") == ("", End("length"))
    monkeypatch.setattr(Sampler, "model_config", SimpleNamespace(max_model_len=2))
    with pytest.raises(EngineRejected, match="the prompt has 3 tokens, but the model takes at most 2 in all"):
        continued(engine, "")


def test_parameters_that_vllm_refuses_are_named() -> None:
    engine, _ = scripted(extra={"no_such_name": 1})
    for parts in (engine.stream(PROMPT, seed=1), engine.extend(PROMPT, "so ", OPTIONS, seed=1)):
        with pytest.raises(EngineRejected, match=r"vLLM refused the sampling parameters: .*'no_such_name'"):
            read(parts)


ANSWER = [[*b"7 END 8"]]


@pytest.mark.parametrize(
    ("extra", "text"),
    [
        ({}, "7 END 8"), ({"stop": []}, "7 END 8"), ({"stop": "END"}, "7 "),
        ({"stop": ["END"], "detokenize": False}, "7 "),
    ],
)  # fmt: skip
def test_a_path_ends_at_the_stop_text(extra: dict[str, Any], text: str) -> None:
    assert read(scripted(ANSWER, extra=extra)[0].stream(PLAIN, seed=1))[0] == text


@pytest.mark.parametrize(
    ("own", "stop", "text"),
    [([], (), "7 END 8"), (["END"], (), "7 "), ([], ("8",), "7 END ")],
)
def test_a_continuation_ends_at_its_stop_texts_or_at_those_of_the_engine(
    own: list[str], stop: tuple[str, ...], text: str
) -> None:
    engine, sampler = scripted(ANSWER, extra={"stop": own})
    assert continued(engine, "so ", replace(OPTIONS, stop=stop))[0] == text
    assert sampler.params.detokenize == bool(own or stop), "vLLM decodes only if it looks for a stop text"


# -- what vLLM receives for a continuation: the ids that it sampled, not the text encoded again


def test_a_continuation_is_continued_with_the_ids_that_were_sampled() -> None:
    engine, sampler = scripted([[*b"ab"], [ord("c")]], [[ord(".")]], [[SPECIAL]])
    assert continued(engine, "")[0] == "abc"
    text, end = continued(engine, "abc")
    assert (text, end.prompt_tokens) == (".", len(PROMPT_IDS) + 3)
    continued(engine, "abc.")
    assert sampler.requests == [[], [*b"abc"], [*b"abc."]]
    assert ids_of("abc") != [*b"abc"]


def test_a_line_that_ended_at_a_stop_text() -> None:
    """Such a line is decoded by vLLM, and lacks the line feed, which is part of its last token."""
    engine, sampler = scripted([[*b"ab"], [END_OF_LINE]], [[SPECIAL]], [[SPECIAL]], [[AB, BLANK_LINE]])
    line = replace(OPTIONS, stop=("\n",))
    text, end = continued(engine, "", line)
    assert (text, end.stop_text) == ("ab.", "\n")
    assert continued(engine, "ab.\n")[1].stop_text == "", "the model ended it"
    continued(engine, "ab.")
    text, end = continued(engine, "", line)
    assert (text, end.stop_text) == ("ab", "\n\n")
    assert sampler.requests == [[], [*b"ab", END_OF_LINE], [*b"ab."], []]


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


@pytest.mark.parametrize(
    "strategy",
    [
        "predictive+sc:runs=3,rollouts=3,rollout_tokens=9,max_steps=4",
        "phi+sc:runs=2,beams=2,rollouts=2,min_steps=2,max_steps=3",
        "mur+sc:runs=3,candidates=2,max_steps=4",
    ],
)
def test_a_search_sends_only_ids_that_were_sampled(strategy: str) -> None:
    engine, sampler = loaded(lines)
    out = asyncio.run(se.aask(PROMPT, engine, strategy, parallel=4, window=4, extract=lambda text: text[:1] or None))
    assert out.failed == 0
    sequences: list[list[int]] = []
    for beginning, reply in zip(sampler.requests, sampler.replies, strict=True):
        assert not beginning or any(earlier[: len(beginning)] == beginning for earlier in sequences)
        sequences.append([*beginning, *reply])
    texts = {tuple(one): sampler.text([one]) for one in sampler.requests}
    assert any(list(ids) != ids_of(text) for ids, text in texts.items()), "encoded again, these were others"
    assert out.tokens.total == sum(map(len, sampler.replies))
