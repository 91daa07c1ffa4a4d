"""vLLM in this process, with doubles of vLLM's parts: loading, paths and continuations, and how they end."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from sureenough.core.events import Summary
from sureenough.engines.base import End, ExtendOptions, Prompt, TokenStream, WatchOptions, as_part
from sureenough.engines.watch.protocol import WatchRequest
from sureenough.errors import EngineError, EngineRejected
from sureenough.vllm import engine as in_process

PROMPT_IDS = [1, 2, 3]
PROMPT = Prompt.user("?")
PLAIN = replace(PROMPT, signals=False)
OPTIONS = ExtendOptions(max_tokens=40, confidence=False)
Pieces = list[list[int]]
Load = Callable[..., tuple[in_process.VLLM, "Sampler"]]


class Parameters(SimpleNamespace):
    """Refuses what vLLM's own do."""

    def __post_init__(self) -> None:
        if self.stop and not self.detokenize:
            raise ValueError("stop strings are only supported when detokenize is True")


SPECIAL = 256


def decoded(ids: list[int], skip_special_tokens: bool = True) -> str:
    """The text of bytes, which the tokens are, but for the special one."""
    return bytes(token for token in ids if token != SPECIAL).decode()


class VLLMError(Exception):
    """As vLLM's."""


@pytest.fixture(autouse=True)
def vllm(monkeypatch: pytest.MonkeyPatch) -> None:
    """The parts of vLLM that paths need; what it makes of a request is the same for all."""
    kinds, errors = SimpleNamespace(DELTA=0, FINAL_ONLY=2), {"VLLMError": VLLMError, "VLLMClientError": VLLMError}
    parts: dict[str, dict[str, Any]] = {"": {}, ".sampling_params": {"RequestOutputKind": kinds}, ".exceptions": errors}
    for name, attributes in parts.items():
        module = ModuleType(f"vllm{name}")
        vars(module).update(attributes)
        monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(in_process, "check_version", lambda: None)


# -- loading


class Shutdowns:
    """A client of an engine, which counts how often it is shut down."""

    count = 0

    def shutdown(self) -> None:
        self.count += 1


@pytest.mark.parametrize("early", [True, False])
def test_engines_with_other_sampling_parameters_share_the_model_and_its_end(
    early: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, loads = Shutdowns(), list[str]()

    async def load(model: in_process.LoadedModel) -> None:
        loads.append(model._model)
        await asyncio.sleep(0)
        model.served = SimpleNamespace(client=client)  # type: ignore[assignment]

    monkeypatch.setattr(in_process.LoadedModel, "_load", load)

    async def use() -> None:
        engine = in_process.VLLM("tiny")
        other = engine.sampled(temperature=1.0) if early else None
        await asyncio.gather(engine.__aenter__(), engine.__aenter__())
        other = other or engine.sampled(temperature=1.0)
        async with other.open(parallel=1) as opened:
            assert opened is other
            await engine.__aexit__()
            await engine.__aexit__()
            assert client.count == 0, "a run still uses it"
        assert (client.count, loads) == (1, ["tiny"])

    asyncio.run(use())


def test_a_model_that_cannot_be_loaded_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async def load(model: in_process.LoadedModel) -> None:
        raise OSError("no such model")

    monkeypatch.setattr(in_process.LoadedModel, "_load", load)

    async def use() -> None:
        engine = in_process.VLLM("missing")
        for _ in range(2):
            with pytest.raises(OSError, match="no such model"):
                async with engine:
                    pass

    asyncio.run(use())


# -- paths and continuations of a model that is loaded


class Sampler:
    """A loaded model that samples what it is told to, and remembers the ids that it was sent."""

    def __init__(self, sampled: Callable[[Any], Pieces], finish: str | None = None, context: int = 4096) -> None:
        self.served = self.client = self.records = self
        self.tokenizer = SimpleNamespace(decode=decoded)
        self.not_watched, self.context = None, context
        self.prompts: dict[Any, Any] = {}
        self._sampled, self._finish = sampled, finish
        self.params: Any = None  # of the last request
        self.requests: list[list[int]] = []  # beginnings, without the prompt
        self.replies: list[list[int]] = []  # what was sampled after them

    async def rendered(self, _: Any, body: dict[str, Any], *, chat: bool) -> in_process.RenderedRequest:
        """What vLLM's own server makes of a request."""
        params = Parameters(stop=body.get("stop"), detokenize=True, skip_special_tokens=True)
        ids = [*PROMPT_IDS, *(body["messages"][1]["content"] if len(body["messages"]) > 1 else "").encode()]
        if len(ids) >= self.context:
            raise in_process.ContextFull("the prompt is too long")
        return in_process.RenderedRequest(None, None, {"prompt_token_ids": ids}, params, {})

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
        return decoded([token for piece in pieces for token in piece])


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> Load:
    def load(
        sampled: Callable[[Any], Pieces], finish: str | None = None, context: int = 4096, **options: Any
    ) -> tuple[in_process.VLLM, Sampler]:
        engine, sampler = in_process.VLLM("tiny", **options), Sampler(sampled, finish, context)
        engine._loaded = sampler  # type: ignore[assignment]
        monkeypatch.setattr(in_process, "rendered", sampler.rendered)
        return engine, sampler

    return load


@pytest.fixture
def scripted(loaded: Load) -> Load:
    def load(*replies: Pieces, **options: Any) -> tuple[in_process.VLLM, Sampler]:
        remaining = iter(replies)
        return loaded(lambda params: next(remaining), **options)

    return load


def read(parts: TokenStream) -> tuple[str, Any]:
    """The text of a path or a continuation, and its last part."""

    async def use() -> list[Any]:
        return [as_part(part) async for part in parts]

    received = asyncio.run(use())
    return "".join(part.text for part in received), received[-1]


def continued(engine: in_process.VLLM, beginning: Any, options: ExtendOptions = OPTIONS) -> tuple[str, Any]:
    return read(engine.extend(PROMPT, beginning, options, seed=1))


@pytest.mark.parametrize("finish", ["stop", "length"])
def test_the_end_has_the_text_and_the_counts(finish: str, scripted: Load) -> None:
    end = [SPECIAL] if finish == "stop" else []  # the token that ends a reply is not part of its text
    engine, sampler = scripted([[*b"42", *end]], [[*b"42"]], finish=finish)
    text, last = read(engine.stream(PLAIN, seed=1))
    assert not sampler.params.detokenize
    assert (text, last) == ("42", End(finish, "42", stop_text="", prompt_tokens=3, cached_tokens=1))
    text, last = read(engine.extend(PLAIN, "so", OPTIONS, seed=1))
    assert (text, last) == ("42", End(finish, stop_text="", prompt_tokens=5, cached_tokens=1))


def test_a_path_that_vllm_gives_up_is_an_error(loaded: Load) -> None:
    engine, _ = loaded(lambda _: [[*b"42"]], finish="abort")
    for parts in (engine.stream(PLAIN, seed=1), engine.extend(PLAIN, "so", OPTIONS, seed=1)):
        with pytest.raises(EngineError, match="finish reason 'abort'"):
            read(parts)


def test_a_watched_path_ends_with_its_summary(monkeypatch: pytest.MonkeyPatch, scripted: Load) -> None:
    engine, sampler = scripted([[*b"42"]])
    seen = Summary(2, 3.0, 4.0)

    async def summary(_: Any, request: WatchRequest, tokens: int) -> Summary:
        assert (request.window, tokens) == (16, 2)
        return seen

    monkeypatch.setattr(in_process.ServedEngine, "_summary", summary)
    monkeypatch.setattr(sampler, "with_progress", lambda outputs, key: outputs, raising=False)
    text, end = read(engine.stream(replace(PROMPT, watch=WatchOptions(16, None)), seed=1))
    assert (text, end.summary, sampler.params.logprobs) == ("42", seen, None)


def test_a_prompt_is_rendered_once_and_again_when_a_message_is_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []

    async def rendered(_: Any, body: dict[str, Any], *, chat: bool) -> Any:
        calls.append(body["messages"][0]["content"])

    monkeypatch.setattr(in_process, "rendered", rendered)

    async def use() -> None:
        engine, message = in_process.ServedEngine(None, "tiny", {}), {"role": "user", "content": "a"}
        engine.served = SimpleNamespace(prompts={})  # type: ignore[assignment]
        for content in ("a", "a", "b"):
            message["content"] = content
            await engine._rendered(Prompt((message,)))

    asyncio.run(use())
    assert calls == ["a", "b"]


def test_a_beginning_that_fills_the_context_is_a_path_that_was_cut(scripted: Load) -> None:
    engine, _ = scripted(context=4)
    assert continued(engine, "so") == ("", End("length"))


def test_what_vllm_refuses_and_its_failures_are_errors_of_ours(loaded: Load) -> None:
    for raised, error in ((ValueError("bad words"), EngineRejected), (VLLMError("it is dead"), EngineError)):
        engine, _ = loaded(lambda _, raised=raised: (_ for _ in ()).throw(raised))
        for parts in (engine.stream(PLAIN, seed=1), engine.extend(PLAIN, "so ", OPTIONS, seed=1)):
            with pytest.raises(error, match=str(raised)):
                read(parts)


ANSWER = [[*b"7 END 8"]]


@pytest.mark.parametrize(
    ("extra", "text"),
    [
        ({}, "7 END 8"), ({"stop": []}, "7 END 8"), ({"stop": "END"}, "7 "),
        ({"stop": ["END"], "detokenize": False}, "7 "),
    ],
)  # fmt: skip
def test_a_path_ends_at_the_stop_text(extra: dict[str, Any], text: str, scripted: Load) -> None:
    assert read(scripted(ANSWER, extra=extra)[0].stream(PLAIN, seed=1))[0] == text


@pytest.mark.parametrize(
    ("own", "stop", "text"),
    [([], (), "7 END 8"), (["END"], (), "7 "), ([], ("8",), "7 END ")],
)
def test_a_continuation_ends_at_its_stop_texts_or_at_those_of_the_engine(
    own: list[str], stop: tuple[str, ...], text: str, scripted: Load
) -> None:
    engine, sampler = scripted(ANSWER, extra={"stop": own})
    assert continued(engine, "so ", replace(OPTIONS, stop=stop))[0] == text
    assert sampler.params.detokenize
