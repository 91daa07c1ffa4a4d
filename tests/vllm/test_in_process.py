"""vLLM in this process: a start that fails leaves nothing behind, and neither does a stop; how a path ends."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import weakref
from pathlib import Path
from types import FrameType, ModuleType, SimpleNamespace
from typing import Any

import pytest

from sureenough.engines.base import End, ExtendOptions, Prompt
from sureenough.engines.watch.protocol import SOCKET_ENV, WINDOW_ENV
from sureenough.errors import EngineRejected
from sureenough.vllm import engine as in_process
from sureenough.vllm.sampled_tokens import SampledTokens, TokenTexts


class AsyncLLM:
    """As much of vLLM's engine as a start and a stop need."""

    shutdowns = 0
    itself: AsyncLLM
    frame: FrameType

    @classmethod
    def from_engine_args(cls, arguments: dict[str, Any]) -> AsyncLLM:
        assert os.environ[WINDOW_ENV] == "64"
        assert Path(os.environ[SOCKET_ENV]).parent.is_dir()
        if arguments["model"] == "missing":
            raise OSError("no such model")
        cls.frame = sys._getframe(1)  # as errors keep it that vLLM remembers
        engine = cls()
        engine.itself = engine  # as a cycle that keeps it until the collector runs
        return engine

    def get_tokenizer(self) -> object:
        if os.environ.get("BAD_TOKENIZER"):
            raise ValueError("no tokenizer")
        return object()

    def shutdown(self) -> None:
        AsyncLLM.shutdowns += 1


@pytest.fixture(autouse=True)
def vllm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "vllm",
        "vllm.engine",
        "vllm.engine.arg_utils",
        "vllm.v1",
        "vllm.v1.engine",
        "vllm.v1.engine.async_llm",
    ):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setattr(sys.modules["vllm.engine.arg_utils"], "AsyncEngineArgs", dict, raising=False)
    monkeypatch.setattr(sys.modules["vllm.v1.engine.async_llm"], "AsyncLLM", AsyncLLM, raising=False)
    monkeypatch.setattr(in_process, "check_version", lambda: None)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv(WINDOW_ENV, "9")
    AsyncLLM.shutdowns = 0


def start(model: str) -> None:
    async def use() -> None:
        async with in_process.VLLM(model, longest_window=64) as engine, engine.open(parallel=1) as opened:
            assert opened is engine

    asyncio.run(use())


@pytest.mark.parametrize("early", [True, False])
def test_engines_with_other_sampling_parameters_share_the_model_and_its_end(early: bool) -> None:
    async def use() -> None:
        engine = in_process.VLLM("tiny", longest_window=64)
        other = engine.sampled(temperature=1.0) if early else None
        await engine.__aenter__()
        other = other or engine.sampled(temperature=1.0)
        async with other.open(parallel=1):
            model = weakref.ref(other._loaded.engine)
            await engine.__aexit__()
            assert AsyncLLM.shutdowns == 0, "a run still uses it"
        assert AsyncLLM.shutdowns == 1
        assert model() is None, "its finaliser must not wait for the end of the interpreter"

    asyncio.run(use())


@pytest.mark.parametrize(
    ("model", "error", "shutdowns"), [("tiny", None, 1), ("missing", "no such model", 0), ("bad", "no tokenizer", 1)]
)
def test_nothing_is_left_behind(
    model: str, error: str | None, shutdowns: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if model == "bad":
        monkeypatch.setenv("BAD_TOKENIZER", "1")
    before = dict(os.environ)
    if error is None:
        start(model)
    else:
        with pytest.raises((OSError, ValueError), match=error):
            start(model)
    assert dict(os.environ) == before
    assert not list(tmp_path.iterdir())
    assert AsyncLLM.shutdowns == shutdowns


def test_a_prompt_is_encoded_once_and_again_when_a_message_is_changed() -> None:
    class Tokenizer:
        calls = 0

        def apply_chat_template(self, messages: list[dict[str, Any]], **_: Any) -> list[int]:
            self.calls += 1
            return list(messages[0]["content"].encode())

    engine, message = in_process.VLLM("tiny"), {"role": "user", "content": "a"}
    engine._loaded.tokenizer = Tokenizer()
    assert [engine._prompt_ids(Prompt((message,))) for _ in range(2)] == [[97], [97]]
    assert engine._loaded.tokenizer.calls == 1
    message["content"] = "b"
    assert engine._prompt_ids(Prompt((message,))) == [98]


def test_a_beginning_that_fills_the_context_is_a_path_that_was_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "vllm.sampling_params", ModuleType("vllm.sampling_params"))
    for module, name in (("vllm", "SamplingParams"), ("vllm.sampling_params", "RequestOutputKind")):
        monkeypatch.setattr(sys.modules[module], name, None, raising=False)
    engine = in_process.VLLM("tiny")
    engine._loaded.engine = SimpleNamespace(model_config=SimpleNamespace(max_model_len=4))
    engine._loaded.tokenizer = SimpleNamespace(
        apply_chat_template=lambda messages, **_: list(messages[0]["content"].encode()),
        encode=lambda text, **_: list(text.encode()),
        decode=lambda ids, **_: bytes(ids).decode(),
    )
    engine._loaded.token_texts = TokenTexts(engine._loaded.tokenizer)
    engine._loaded.sampled = SampledTokens(engine._loaded.token_texts)

    async def extended(question: str, beginning: str) -> list[Any]:
        options = ExtendOptions(max_tokens=9)
        return [chunk async for chunk in engine.extend(Prompt.user(question), beginning, options, seed=1)]

    assert asyncio.run(extended("??", "so")) == [End("length")]
    with pytest.raises(EngineRejected, match="the prompt has 5 tokens, but the model takes at most 4 in all"):
        asyncio.run(extended("?????", ""))
