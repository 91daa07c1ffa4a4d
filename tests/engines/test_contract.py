"""One contract for all engines. To hold a new engine to it: a way to make one, added to `ENGINES` of makers.py.

The same tests run against real servers: `.ci/vllm pytest tests/engines/test_contract.py`, and `.ci/llama`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, aclosing
from typing import Any

import numpy as np
import pytest

from sureenough.answers import extract
from sureenough.answers.kinds import Math
from sureenough.core.options import RunOptions
from sureenough.core.session import Session
from sureenough.drivers.live import run
from sureenough.engines import Engine, Prompt
from sureenough.engines.base import End, ExtendOptions, Piece, as_part
from sureenough.errors import EngineError, MissingLogprobs
from sureenough.spec import resolve
from tests.engines.makers import ENGINES, PROMPT, SEEDS, Held, Trouble

every_engine = pytest.mark.parametrize("make", ENGINES.values(), ids=ENGINES)


def bounded(make: Callable[[Trouble], AbstractAsyncContextManager[Held]], trouble: Trouble, use: Any) -> Any:
    """Use an engine, within a time that only a hang would need."""

    async def all_of_it() -> Any:
        async with make(trouble) as held:
            result = await use(held)
            while held.running():
                await asyncio.sleep(0.002)
            assert [task for task in asyncio.all_tasks() if task.get_name().startswith("path")] == []
        return result

    return asyncio.run(asyncio.wait_for(all_of_it(), timeout=30))


async def whole(engine: Engine, seed: int, prompt: Prompt = PROMPT) -> tuple[list[tuple[float, float]], str]:
    signals, text = [], ""
    async with engine.open(parallel=1) as ready, aclosing(ready.stream(prompt, seed=seed)) as chunks:
        async for chunk in chunks:
            part = as_part(chunk)
            signals += [(token.peak, token.conf) for token in part.tokens]
            text += part.text
    return signals, text


@every_engine
def test_a_path_has_text_and_two_numbers_per_token(make: Any) -> None:
    async def use(held: Held) -> None:
        signals, text = await whole(held.engine, SEEDS[0])
        assert len(signals) == held.tokens
        assert all(0 < peak <= 1 and 0 <= conf <= 100 for peak, conf in signals)
        assert text
        assert extract(text) == held.answer

    bounded(make, "none", use)


@every_engine
def test_a_seed_gives_its_path_again(make: Any) -> None:
    async def use(held: Held) -> None:
        one, again, *others = [await whole(held.engine, seed) for seed in (SEEDS[1], *SEEDS[1:7])]
        assert one[1] == again[1]
        # A prompt that is in a server's cache is not read in the same batch again: the last digits differ.
        assert np.array(one[0]) == pytest.approx(np.array(again[0]), rel=1e-3)
        assert any(one[0] != other[0] for other in others)  # a sure model may begin two paths alike

    bounded(make, "none", use)


@every_engine
def test_closing_frees_the_slot(make: Any) -> None:
    async def use(held: Held) -> None:
        async with held.engine.open(parallel=2) as ready:
            for seed in SEEDS[:5]:  # more than there are slots
                async with aclosing(ready.stream(PROMPT, seed=seed)) as chunks:
                    assert as_part(await anext(chunks)).tokens
                    while held.running() > 3:  # closing is heard a moment later; only one that is not would hang here
                        await asyncio.sleep(0.002)

    bounded(make, "endless", use)


@every_engine
def test_cancelling_the_reader_frees_the_slot(make: Any) -> None:
    async def use(held: Held) -> None:
        reading = asyncio.create_task(whole(held.engine, SEEDS[0]))
        while not held.running():
            await asyncio.sleep(0.001)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading

    bounded(make, "endless", use)


@every_engine
def test_missing_log_probabilities_name_the_fix(make: Any) -> None:
    async def use(held: Held) -> None:
        with pytest.raises(MissingLogprobs, match=r"sc, ac(, | or )esc"):
            await whole(held.engine, SEEDS[0])

    bounded(make, "silent", use)


@every_engine
def test_a_path_that_breaks_is_an_engine_error(make: Any) -> None:
    async def use(held: Held) -> None:
        with pytest.raises(EngineError):
            await whole(held.engine, SEEDS[0])

    bounded(make, "broken", use)


@every_engine
@pytest.mark.parametrize("strategy", ["sc", "ddc:warmup=4", "sure"])
def test_a_whole_run(make: Any, strategy: str) -> None:
    async def use(held: Held) -> None:
        session = Session(resolve(strategy), RunOptions(paths=16, window=4, parallel=4))
        out = await run(PROMPT, held.engine, session, judge=Math())
        assert out.answer == held.answer
        assert out.tokens.total <= held.tokens * out.started

    bounded(make, "none", use)


async def continued(engine: Engine, beginning: str, seed: int = SEEDS[3], **options: Any) -> tuple[list[Piece], End]:
    """The pieces and the end of a beginning's continuation at T = 0."""
    chosen = ExtendOptions(**({"max_tokens": 8, "temperature": 0.0} | options))
    async with engine.open(parallel=1) as ready, aclosing(ready.extend(PROMPT, beginning, chosen, seed=seed)) as chunks:
        *pieces, end = [as_part(chunk) async for chunk in chunks]
    assert isinstance(end, End)
    assert not end.text
    return [piece for piece in pieces if isinstance(piece, Piece)], end


def text_of(pieces: list[Piece]) -> str:
    return "".join(piece.text for piece in pieces)


@every_engine
def test_a_beginning_is_continued_as_the_unbroken_path(make: Any) -> None:
    async def use(held: Held) -> None:
        whole, _ = await continued(held.engine, "")
        half, middle = await continued(held.engine, "", max_tokens=4)
        rest, end = await continued(held.engine, text_of(half), max_tokens=4)
        assert text_of(half) + text_of(rest) == text_of(whole)
        assert all(0 < token.peak <= 1 for piece in rest for token in piece.tokens)
        assert [len(piece.logprobs) for piece in rest] == [len(piece.tokens) for piece in rest]
        assert [sum(len(piece.tokens) for piece in pieces) for pieces in (half, rest)] == [4, 4]
        assert end.finish == "length"
        counts = middle.prompt_tokens, end.prompt_tokens
        assert counts == (None, None) or counts[1] == (counts[0] or 0) + 4

    bounded(make, "none", use)


@every_engine
def test_a_continuation_ends_at_a_stop_text(make: Any) -> None:
    async def use(held: Held) -> None:
        whole = text_of((await continued(held.engine, ""))[0])
        stop = whole[-1]
        stopped, end = await continued(held.engine, "", stop=(stop, "never"))
        assert text_of(stopped) == whole[: whole.index(stop)]
        assert end.finish == "stop"
        assert end.stop_text != "", "an engine that says what ended it names the stop text"

    bounded(make, "none", use)


@every_engine
def test_closing_a_continuation_frees_the_slot(make: Any) -> None:
    async def use(held: Held) -> None:
        options = ExtendOptions(max_tokens=1000)
        async with held.engine.open(parallel=2) as ready:
            for seed in SEEDS[:5]:
                async with aclosing(ready.extend(PROMPT, "so ", options, seed=seed)) as chunks:
                    await anext(chunks)

    bounded(make, "endless", use)


@every_engine
def test_a_continuation_that_breaks_is_an_engine_error(make: Any) -> None:
    async def use(held: Held) -> None:
        with pytest.raises(EngineError):
            await continued(held.engine, "so ", max_tokens=1000)

    bounded(make, "broken", use)


@every_engine
def test_a_deadline_frees_every_slot(make: Any) -> None:
    async def use(held: Held) -> None:
        session = Session(resolve("ddc:warmup=4"), RunOptions(paths=16, window=4, parallel=4, deadline=0.05))
        out = await run(PROMPT, held.engine, session, judge=Math())
        assert (out.reason, out.answer) == ("deadline", None)

    bounded(make, "endless", use)
