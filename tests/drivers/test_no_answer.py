"""Live runs in which nothing is voted: they end early and say why."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable
from typing import Any

import pytest

import sureenough as se
from sureenough.engines import Fake
from sureenough.engines.base import End
from sureenough.engines.fake import Step
from tests.drivers.test_live import scripted, tokens

PROSE = "It depends on what you mean."


def silent_until(first: int, finish: str | None = None) -> Fake:
    """Paths give an answer from number `first` on."""

    def play(n: int) -> Iterable[Step]:
        pause = random.Random(n).random() * 0.01
        if n >= first:
            return [pause, tokens(r"\boxed{7}")]
        end = [] if finish is None else [End(finish)]
        return [pause, tokens(PROSE), *end]

    return scripted(play)


@pytest.mark.parametrize("parallel", [1, 4, 16])
@pytest.mark.parametrize(
    ("strategy", "counted"), [("sc", 8), ("ac", 8), ("sure", 8), ("ddc:warmup=4", 8), ("ddc:warmup=12", 12)]
)
def test_a_run_ends_if_the_first_paths_give_no_answer(strategy: str, counted: int, parallel: int) -> None:
    """Later paths would answer: they play no part, at any width."""
    out = se.ask("?", silent_until(counted), strategy, parallel=parallel)
    assert (out.answer, out.reason, out.votes) == (None, "no_answer", {})
    assert counted <= out.started < counted + 2 * parallel + 1
    assert out.notes[-1].startswith("none of ")
    assert "a box or an announced value" in out.notes[-1]
    assert "the template" in out.notes[-1]
    assert "No path gave an answer" in out.explain()


@pytest.mark.parametrize("parallel", [1, 16])
def test_one_answer_among_them_is_enough_to_go_on(parallel: int) -> None:
    out = se.ask("?", silent_until(7), "sc", paths=20, parallel=parallel)
    assert (out.answer, out.reason, out.started) == ("7", "budget", 20)


def test_paths_that_were_cut_need_more_tokens() -> None:
    out = se.ask("?", silent_until(64, finish="length"), "sure")
    assert out.reason == "no_answer"
    assert "paths were cut at their limit of tokens" in out.notes[-1]
    assert "max_path_tokens" in out.notes[-1]


@pytest.mark.parametrize(
    ("kind", "looks_for"),
    [
        ("math", "a box or an announced value"),
        ("choice:letters=ABC", "one of the letters ABC"),
        ("text:labels=yes,no", "one of the labels yes, no"),
        ("number", "one number, and not several"),
        ("date", "one date, and not several"),
        ("json:fields=total", "complete JSON with a field total"),
        (se.judge(extract=lambda text: None), "an answer that the judge can read"),
    ],
)
def test_the_note_names_what_the_kind_looks_for(kind: Any, looks_for: str) -> None:
    out = se.ask("?", silent_until(64), "sc", paths=3, kind=kind)
    assert out.reason == "budget"
    assert out.notes[-1].startswith(f"none of 3 paths has {looks_for}")


def test_a_caller_may_want_the_whole_budget() -> None:
    out = asyncio.run(se.aask("?", silent_until(10), "sc", paths=12, gives_up=False))
    assert (out.answer, out.reason, out.started) == ("7", "budget", 12)


def test_failed_paths_are_left_out() -> None:
    """Six fail, eight say nothing: the run goes on to the fourteenth."""

    def play(n: int) -> Iterable[Step]:
        return [se.EngineError("lost")] if n < 6 else [tokens(PROSE)]

    out = se.ask("?", scripted(play), "sc", parallel=1)
    assert (out.reason, out.started, out.failed) == ("no_answer", 14, 6)


def test_recorded_paths_are_never_given_up() -> None:
    out = se.replay([se.RecordedPath(answer=None, peak=[0.5], conf=[9.0])] * 20, "sc")
    assert (out.reason, out.started) == ("budget", 20)
