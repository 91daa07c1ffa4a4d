"""Stop texts of vLLM in this process, with doubles of its engine and parameters: vLLM finds them in decoded text."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import aclosing
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from sureenough.engines import Prompt
from sureenough.engines.base import ExtendOptions, TokenStream
from sureenough.errors import EngineRejected
from sureenough.vllm import engine as in_process
from sureenough.vllm.sampled_tokens import SampledTokens, TokenTexts
from tests.engines.test_reply import Bytes

PROMPT = Prompt.user("?", signals=False)
ANSWER = "7 END 8"


class Parameters(SimpleNamespace):
    """Refuses what vLLM's own do."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**{"stop": None, "detokenize": True} | given)
        if self.stop and not self.detokenize:
            raise ValueError("stop strings are only supported when detokenize is True")
        if "no_such_name" in given:
            raise TypeError("Unexpected keyword argument 'no_such_name'")


class Tokenizer(Bytes):
    """Renders every prompt as the same tokens."""

    def apply_chat_template(self, messages: Any, **_: Any) -> list[int]:
        return [1, 2]


class VLLMEngine:
    """Generates `ANSWER` up to a stop text, whose tokens are part of the ids and not of the text."""

    model_config = SimpleNamespace(max_model_len=4096)

    async def generate(self, prompt: Any, params: Parameters, request_id: str) -> AsyncIterator[Any]:
        stops = [params.stop] if isinstance(params.stop, str) else params.stop or []
        ends = [(ANSWER.index(stop), len(stop)) for stop in stops if params.detokenize]
        end, more = min(ends, default=(len(ANSWER), 0))
        ids, text = list(ANSWER[: end + more].encode()), ANSWER[:end]
        output = SimpleNamespace(
            token_ids=ids, text=text if params.detokenize else "", finish_reason="stop", logprobs=None
        )
        yield SimpleNamespace(num_cached_tokens=0, outputs=[output])


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes an engine whose model is a double."""
    vllm, parameters = ModuleType("vllm"), ModuleType("vllm.sampling_params")
    vllm.SamplingParams = Parameters  # type: ignore[attr-defined]
    parameters.RequestOutputKind = SimpleNamespace(DELTA=0, FINAL_ONLY=2)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "vllm", vllm)
    monkeypatch.setitem(sys.modules, "vllm.sampling_params", parameters)
    monkeypatch.setattr(in_process, "check_version", lambda: None)

    def load(**extra: Any) -> in_process.VLLM:
        engine = in_process.VLLM("tiny", extra=extra)
        engine._loaded.engine, engine._loaded.tokenizer = VLLMEngine(), Tokenizer()
        engine._loaded.token_texts = TokenTexts(engine._loaded.tokenizer)
        engine._loaded.sampled = SampledTokens(engine._loaded.token_texts)
        return engine

    return load


def text_of(path: TokenStream) -> str:
    async def read() -> str:
        async with aclosing(path) as chunks:
            return "".join([getattr(chunk, "text", "") async for chunk in chunks])

    return asyncio.run(read())


@pytest.mark.parametrize(
    ("extra", "text"),
    [({}, ANSWER), ({"stop": []}, ANSWER), ({"stop": "END"}, "7 "), ({"stop": ["END"], "detokenize": False}, "7 ")],
)
def test_a_path_ends_at_the_stop_text(loaded: Any, extra: Any, text: str) -> None:
    assert text_of(loaded(**extra).stream(PROMPT, seed=1)) == text


@pytest.mark.parametrize(
    ("own", "stop", "text"),
    [([], (), ANSWER), (["END"], (), "7 "), ([], ("8",), "7 END ")],
)
def test_a_continuation_ends_at_its_stop_texts_or_at_those_of_the_engine(
    loaded: Any, own: list[str], stop: tuple[str, ...], text: str
) -> None:
    options = ExtendOptions(max_tokens=9, stop=stop)
    assert text_of(loaded(stop=own).extend(PROMPT, "so ", options, seed=1)) == text


def test_parameters_that_vllm_refuses_are_named(loaded: Any) -> None:
    engine = loaded(no_such_name=1)
    options = ExtendOptions(max_tokens=9)
    for path in (engine.stream(PROMPT, seed=1), engine.extend(PROMPT, "so ", options, seed=1)):
        with pytest.raises(EngineRejected, match=r"vLLM refused the sampling parameters: .*'no_such_name'"):
            text_of(path)
