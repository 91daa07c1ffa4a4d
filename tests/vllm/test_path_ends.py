"""How a path of vLLM in this process ends: its text, its counts and its summary, or an error."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from sureenough.core.events import Summary
from sureenough.engines.base import End, ExtendOptions, Prompt, WatchOptions, as_part
from sureenough.engines.watch.protocol import WatchRequest
from sureenough.errors import EngineError
from sureenough.vllm import engine as in_process
from sureenough.vllm.sampled_tokens import SampledTokens, TokenTexts


class OneReply:
    """A loaded model whose paths are one output of two tokens."""

    model_config = SimpleNamespace(max_model_len=64)

    def __init__(self, finish: str) -> None:
        self.engine = self.tokenizer = self
        self._finish = finish
        self.token_texts = TokenTexts(self)
        self.sampled = SampledTokens(self.token_texts)

    async def generate(self, *_: object) -> Any:
        delta = SimpleNamespace(token_ids=[4, 2], finish_reason=self._finish, text="", logprobs=None)
        yield SimpleNamespace(outputs=[delta], num_cached_tokens=1)

    def encode(self, text: str, **_: object) -> list[int]:
        return [ord(letter) for letter in text]

    def decode(self, ids: list[int], **_: object) -> str:
        return "".join(map(str, ids))

    def apply_chat_template(self, *_: object, **__: object) -> list[int]:
        return [1, 2, 3]


def replying(finish: str, monkeypatch: pytest.MonkeyPatch) -> in_process.VLLM:
    monkeypatch.setattr(in_process, "check_version", lambda: None)
    engine = in_process.VLLM("tiny")
    monkeypatch.setattr(engine, "_loaded", OneReply(finish))
    monkeypatch.setattr(engine, "_params", lambda *_, **__: SimpleNamespace())
    return engine


async def last_chunk(chunks: Any) -> End:
    end: End = [chunk async for chunk in chunks][-1]
    return end


class Letters(OneReply):
    """A tokenizer whose tokens are characters, so that their texts add up."""

    def decode(self, ids: list[int], **_: object) -> str:
        return "".join(map(chr, ids))


PLAIN = Prompt(({"role": "user", "content": "?"},), signals=False)


@pytest.mark.parametrize(("reason", "finish"), [("stop", "stop"), ("length", "length")])
def test_the_last_chunk_has_the_text_and_the_counts(reason: str, finish: str, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = replying(reason, monkeypatch)
    last = asyncio.run(last_chunk(engine.stream(PLAIN, seed=1)))
    assert (last.text, last.finish, last.prompt_tokens, last.cached_tokens, last.summary) == ("42", finish, 3, 1, None)
    rest = asyncio.run(last_chunk(engine.extend(PLAIN, "so", ExtendOptions(max_tokens=2), seed=1)))
    assert (rest.text, rest.finish, rest.prompt_tokens, rest.cached_tokens) == ("", finish, 5, 1)


@pytest.mark.parametrize("stop", [(), ("\n",)])
def test_vllm_decodes_a_continuation_only_if_it_looks_for_a_stop_text(
    stop: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, params = replying("length", monkeypatch), dict[str, Any]()
    monkeypatch.setattr(engine, "_loaded", Letters("length"))
    monkeypatch.setattr(engine, "_params", lambda *_, changes, **__: params.update(changes))
    options = ExtendOptions(max_tokens=2, stop=stop)

    async def text() -> str:
        return "".join([as_part(chunk).text async for chunk in engine.extend(PLAIN, "so", options, seed=1)])

    assert asyncio.run(text()) == ("" if stop else "\x04\x02")  # vLLM's own text is empty in this reply
    assert params["detokenize"] == bool(stop)


def test_a_path_that_vllm_gives_up_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = replying("abort", monkeypatch)
    for chunks in (engine.stream(PLAIN, seed=1), engine.extend(PLAIN, "so", ExtendOptions(max_tokens=2), seed=1)):
        with pytest.raises(EngineError, match="finish reason 'abort'"):
            asyncio.run(last_chunk(chunks))


def test_a_watched_path_ends_with_its_summary(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, seen = replying("stop", monkeypatch), Summary(2, 3.0, 4.0)
    watched = replace(PLAIN, signals=True, watch=WatchOptions(16, None))

    async def summary(request: WatchRequest, tokens: int) -> Summary:
        assert (request.window, tokens) == (16, 2)
        return seen

    monkeypatch.setattr(engine._loaded, "summary", summary, raising=False)
    monkeypatch.setattr(engine._loaded, "with_progress", lambda outputs, key: outputs, raising=False)
    last = asyncio.run(last_chunk(engine.stream(watched, seed=1)))
    assert (last.text, last.summary) == ("42", seen)
