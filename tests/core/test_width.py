"""Planned width: how many paths run at once."""

from __future__ import annotations

import pytest

from sureenough.core.events import Classify, Ended, Event, Fate, Regrouped, Start
from sureenough.core.options import LIVE_DEFAULTS, RunOptions
from sureenough.core.session import Session
from sureenough.errors import UsageError
from sureenough.spec import resolve


class Running:
    """A session, and how many of its paths run."""

    def __init__(self, strategy: str, **options: object) -> None:
        values = {"paths": 64, "window": 16, "parallel": 64, "hurry": 0.25} | options
        self.session = Session(resolve(strategy), RunOptions(**values))  # type: ignore[arg-type]
        self.running: set[int] = set()
        self.requests = 0

    def begin(self) -> int:
        self.running |= {action.path for action in self.session.begin() if isinstance(action, Start)}
        return len(self.running)

    def receive(self, event: Event) -> int:
        actions = self.session.receive(event)
        self.running |= {action.path for action in actions if isinstance(action, Start)}
        self.requests += any(isinstance(action, Classify) for action in actions)
        return len(self.running)

    def end(self, path: int, answer: str | None = "1", fate: Fate = Fate.KEPT) -> int:
        self.running.remove(path)
        return self.receive(Ended(path, fate, answer))


@pytest.mark.parametrize(
    ("strategy", "first"),
    [("sc", 64), ("ac", 8), ("esc", 10), ("ddc", 16), ("ddc:warmup=2", 2)],
)
def test_twice_the_need_runs_at_first_and_a_warm_up_runs_as_a_whole(strategy: str, first: int) -> None:
    assert Running(strategy).begin() == first


def test_parallel_is_the_limit() -> None:
    assert Running("ac", parallel=3).begin() == 3
    assert Running("sc", parallel=1).begin() == 1


@pytest.mark.parametrize(
    ("hurry", "widths"),
    [
        (0.0, [8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8]),
        (1.0, [8, 8, 8, 8, 8, 8, 8, 8, 9, 10, 11, 12]),
        (0.9, [8, 8, 8, 8, 8, 8, 8, 8, 8, 9, 9, 10]),
    ],
)
def test_paths_that_end_without_settling_it_let_more_run(hurry: float, widths: list[int]) -> None:
    """No path gives an answer, so `ac` needs 4 all along; failed and abstaining paths count alike."""
    run = Running("ac", hurry=hurry)
    run.begin()
    ends = [run.end(path, None, Fate.FAILED if path % 3 == 0 else Fate.KEPT) for path in range(12)]
    assert ends == widths


def test_paths_that_ended_out_of_turn_count_as_ended() -> None:
    run = Running("ac", hurry=2.0)
    run.begin()
    assert [run.end(path) for path in (1, 2, 3, 4, 5)] == [8, 8, 8, 8, 10]


def test_votes_that_wait_for_a_class_hold_their_places() -> None:
    """They may settle the vote: what would be started in their place would be thrown away."""
    run = Running("ac", hurry=0.0)
    run.session.receive(Regrouped({}))
    assert run.begin() == 8
    assert [run.end(path) for path in (0, 1, 2)] == [7, 6, 5]
    assert run.requests == 1
    assert run.receive(Regrouped({"1": 0})) == 5  # three to none: one more vote is needed, two may run


def test_width_is_planned_by_default_in_live_runs_only() -> None:
    assert LIVE_DEFAULTS.hurry == 0.25
    assert RunOptions().hurry is None


def test_an_infinite_hurry_is_none() -> None:
    assert RunOptions(hurry=float("inf")) == RunOptions()
    assert Running("ac", hurry=None).begin() == Running("ac", hurry=float("inf")).begin() == 64


@pytest.mark.parametrize("hurry", [-1, float("nan"), 1e9, True, "1"])
def test_hurry_is_a_number_of_at_least_0(hurry: object) -> None:
    with pytest.raises(UsageError, match="at least 0"):
        RunOptions(hurry=hurry)  # type: ignore[arg-type]
