"""The window that follows the paths: chosen from the lengths of the first ones, the same at any width."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from sureenough.core.events import Ended, Expired, Fate, Start, Stop, Summary, Token, Tokens
from sureenough.core.options import RunOptions, choose_window
from sureenough.core.outcome import Outcome
from sureenough.core.session import Session
from sureenough.spec import resolve


@pytest.mark.parametrize(
    ("lengths", "window"),
    [
        ([], 2048),
        ([0], 16),
        ([67], 16),
        ([127], 16),
        ([128], 32),
        ([255, 1, 9000], 32),
        ([256, 1, 9000], 64),
        ([100, 156], 32),  # a median of 128
        ([100, 155], 16),
        ([100_000] * 5, 2048),
    ],
)
def test_the_largest_power_of_two_in_a_quarter_of_the_median(lengths: list[int], window: int) -> None:
    assert choose_window(lengths) == window


@pytest.mark.parametrize(("longest", "window"), [(512, 512), (1000, 512), (4096, 2048), (8, 8)])
def test_it_is_not_above_the_longest_that_can_be_watched(longest: int, window: int) -> None:
    assert choose_window([20_000], longest) == window


LENGTHS = [90, 300, 700, 80, 260, 500, 640, 33, 120, 410, 275, 350, 90, 801, 640, 222, 310, 77, 515, 99]


def play(strategy: str, parallel: int, seed: int, **options: Any) -> tuple[Outcome, Session]:
    """A run whose paths grow by turns in a random order; path n has LENGTHS[n] tokens and its own confidence."""
    draw = random.Random(f"{parallel} {seed}")
    given = {"paths": len(LENGTHS), "parallel": parallel} | options
    session = Session(resolve(strategy), RunOptions(**given))
    answers = [random.Random(f"{seed} {n}").choice("aab") for n in range(len(LENGTHS))]
    left = {action.path: LENGTHS[action.path] for action in session.begin() if isinstance(action, Start)}
    while not session.done:
        path = draw.choice(sorted(left))
        size = min(left[path], 25)
        signals = [random.Random(f"{seed} {path} {left[path] - i}") for i in range(size)]
        actions = session.receive(Tokens(path, [Token("", one.random(), 5 + 5 * one.random()) for one in signals]))
        left[path] -= size
        if not left[path] and path in left and not session.done:
            del left[path]
            actions += session.receive(Ended(path, Fate.KEPT, answers[path]))
        for action in actions:
            if isinstance(action, Start):
                left[action.path] = LENGTHS[action.path]
            elif not isinstance(action, Stop):
                left.pop(action.path, None)  # type: ignore[union-attr]
    return session.outcome(), session


@pytest.mark.parametrize("strategy", ["sure", "ddc:warmup=4", "deepconf-low:warmup=5", "ddc-no-depth:warmup=3"])
@pytest.mark.parametrize("seed", range(3))
def test_it_is_the_same_at_any_width_and_decides_as_if_it_had_been_given(strategy: str, seed: int) -> None:
    warmup = resolve(strategy).warmup
    window = choose_window(LENGTHS[: warmup or 3])
    given, _ = play(strategy, 1, seed, window=window)
    for parallel, hurry in ((1, None), (4, None), (20, None), (6, 0.25)):
        out, session = play(strategy, parallel, seed, hurry=hurry)
        assert (out.window, out.window_paths, session.options.window) == (window, warmup or 3, window)
        assert (out.answer, out.reason, out.counted) == (given.answer, given.reason, given.counted)
        assert out.votes == pytest.approx(given.votes, abs=0)
        assert out.gate == given.gate
        assert f"Window: {window} tokens, chosen from the lengths of {warmup or 3} paths." in out.explain()
    assert given.window_paths == 0


def test_failed_paths_are_left_out() -> None:
    session = Session(resolve("sure"), RunOptions(paths=8, parallel=3))
    session.begin()
    session.receive(Tokens(0, [Token("", 0.5, 9.0)] * 1000))
    session.receive(Ended(0, Fate.FAILED))
    for path, length in ((1, 300), (2, 340)):
        session.receive(Tokens(path, [Token("", 0.5, 9.0)] * length))
        session.receive(Ended(path, Fate.KEPT, "1"))
    assert session.options.window == 64


def test_an_engine_that_watches_paths_sends_their_signals_instead() -> None:
    """Its own C_path and tail are of a window that is not the session's."""
    rng = np.random.default_rng(0)
    traces = [np.column_stack([rng.random(n), 5 + rng.random(n)]) for n in (200, 260, 300, 280)]
    outs = []
    for watched in (False, True):
        session = Session(resolve("sure"), RunOptions(paths=4))
        session.begin()
        for path, trace in enumerate(traces):
            answer = "ab"[path % 2]
            if watched:
                session.receive(Ended(path, Fate.KEPT, answer, Summary(len(trace), 1.0, 1.0, signals=trace)))
            else:
                session.receive(Tokens(path, [Token("", peak, conf) for peak, conf in trace.tolist()]))
                session.receive(Ended(path, Fate.KEPT, answer))
        outs.append(session.outcome())
    assert outs[0].votes == outs[1].votes
    assert outs[0].window == outs[1].window == 64


def test_there_is_no_stop_test_before_the_first_three_have_ended() -> None:
    given = Session(resolve("sure:least=1,delta=0.5"), RunOptions(paths=8, window=16))
    given.begin()
    assert isinstance(given.receive(Ended(0, Fate.KEPT, "1"))[-1], Stop)
    chosen = Session(resolve("sure:least=1,delta=0.5"), RunOptions(paths=8))
    chosen.begin()
    ends = [chosen.receive(Ended(path, Fate.KEPT, "1")) for path in range(3)]
    assert [isinstance(actions[-1], Stop) for actions in ends] == [False, False, True]


def test_strategies_that_read_no_confidence_do_not_wait_for_it() -> None:
    session = Session(resolve("esc:batch=1"), RunOptions(paths=8))
    session.begin()
    session.receive(Tokens(0, unread=1000))
    assert isinstance(session.receive(Ended(0, Fate.KEPT, "1"))[-1], Stop)
    out = session.outcome()
    assert (out.window, out.window_paths) == (128, 1)


@pytest.mark.parametrize("strategy", ["sure", "ddc:warmup=4"])
def test_a_run_that_ends_before_chooses_from_what_there_is_and_counts_it(strategy: str) -> None:
    session = Session(resolve(strategy), RunOptions(paths=8, parallel=4))
    session.begin()
    for path, length in ((0, 200), (1, 400)):
        session.receive(Tokens(path, [Token("", 0.5, 9.0)] * length))
        session.receive(Ended(path, Fate.KEPT, "1"))
    session.receive(Expired("deadline"))
    out = session.outcome()
    assert (out.answer, out.counted, out.window, out.window_paths) == ("1", 2, 64, 2)
    assert next(iter(out.votes.values())) > 0


def test_a_run_without_any_end_says_2048() -> None:
    session = Session(resolve("sure"), RunOptions(paths=8))
    session.begin()
    session.receive(Expired("deadline"))
    out = session.outcome()
    assert (out.window, out.window_paths, out.answer) == (2048, 0, None)
