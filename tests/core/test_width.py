"""Planned width: how many paths run at once."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sureenough.core.events import Classify, Ended, Event, Expired, Fate, Regrouped, Start
from sureenough.core.options import LIVE_DEFAULTS, RunOptions
from sureenough.core.poll import Poll
from sureenough.core.session import Session
from sureenough.core.stop_rules import PlainStopRule
from sureenough.core.strategy import Strategy
from sureenough.errors import UsageError
from sureenough.spec import resolve
from tests.core import making


class Running:
    """A session, and how many of its paths run."""

    def __init__(self, strategy: str | Strategy, **options: object) -> None:
        values = {"paths": 64, "window": 16, "parallel": 64, "hurry": 0.6} | options
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
    ("strategy", "hurry", "first"),
    [
        *(("ac", hurry, width) for hurry, width in ((0, 4), (0.1, 5), (0.25, 5), (0.26, 6), (1, 8), (15, 64))),
        *(("sure", hurry, width) for hurry, width in ((0, 3), (0.6, 5), (1, 6), (1e6, 64))),
        *(("esc", hurry, width) for hurry, width in ((0, 5), (0.1, 6), (0.2, 6), (0.4, 7))),
        *(("sc", hurry, 64) for hurry in (0, 0.6)),
        *((name, 0, warmup) for name, warmup in (("ddc", 16), ("ddc:warmup=2", 2))),
    ],
)
def test_what_the_vote_needs_runs_and_hurry_times_that_beside_it(strategy: str, hurry: float, first: int) -> None:
    """A rule that never stops needs all of `parallel`; a warm-up runs as a whole."""
    assert Running(strategy, hurry=hurry).begin() == first


def test_parallel_is_the_limit() -> None:
    assert Running("ac", parallel=3).begin() == 3
    assert Running("sc", parallel=1).begin() == 1


@pytest.mark.parametrize(("hurry", "width"), [(0.0, 4), (0.6, 7), (1.0, 8)])
def test_paths_that_end_without_a_vote_change_nothing(hurry: float, width: int) -> None:
    """No path gives an answer, so `ac` needs 4 all along; failed and abstaining paths count alike."""
    run = Running("ac", hurry=hurry)
    run.begin()
    ends = [run.end(path, None, Fate.FAILED if path % 3 == 0 else Fate.KEPT) for path in range(12)]
    assert ends == [width] * 12


def test_votes_that_wait_for_a_class_hold_their_places() -> None:
    """They may settle the vote: what would be started in their place would be thrown away."""
    run = Running("ac", hurry=1.0)
    run.session.receive(Regrouped({}))
    assert run.begin() == 8
    assert [run.end(path) for path in (0, 1, 2)] == [7, 6, 5]
    assert run.requests == 1
    assert run.receive(Regrouped({"1": 0})) == 5  # three to none: one more vote is needed, two may run


def test_width_is_planned_by_default_in_live_runs_only() -> None:
    assert LIVE_DEFAULTS.hurry == 0.6
    assert RunOptions().hurry is None


def test_an_infinite_hurry_is_none() -> None:
    assert RunOptions(hurry=float("inf")) == RunOptions()
    assert Running("ac", hurry=None).begin() == Running("ac", hurry=float("inf")).begin() == 64


@pytest.mark.parametrize("hurry", [-1, float("nan"), 1e9, True, "1"])
def test_hurry_is_a_number_of_at_least_0(hurry: object) -> None:
    with pytest.raises(UsageError, match="at least 0"):
        RunOptions(hurry=hurry)  # type: ignore[arg-type]


# -- a rule of the caller's own


def lead_of(votes: int) -> Strategy:
    """Stops when the leader has so many more votes than the next answer."""

    def settled(poll: Poll) -> bool:
        lead = poll.lead_by_count()
        return lead is not None and lead.first - lead.second >= votes

    return Strategy("lead", stop=settled)


def test_a_plain_function_is_called_with_imagined_votes() -> None:
    run = Running(lead_of(5), hurry=0.0)
    assert run.begin() == 5
    assert [run.end(path, answer) for path, answer in enumerate("aabaa")] == [4, 3, 4, 3, 2]
    assert [run.end(path, "a") for path in (5, 6)] == [1, 0]
    assert (run.session.outcome().answer, run.session.outcome().notes) == ("a", ())


def test_imagined_votes_weigh_the_mean_of_those_counted() -> None:
    weights: list[float] = []

    def settled(poll: Poll) -> bool:
        lead = poll.lead_by_weight()
        weights.append(0.0 if lead is None else lead.first)
        return False

    made = making.poll("aba", [2.0, 3.0, 4.0])
    PlainStopRule(settled).need(made, 2)
    assert weights == [9.0, 12.0]
    assert (made.counted, made.winner()) == (3, "a"), "the poll is as it was"


def fails(poll: Poll) -> bool:
    return poll.ballots[4].answer == "a" if poll.counted > 4 else bool(poll.ballots and poll.outcomes[99])


@pytest.mark.parametrize("rule", [lambda poll: False, lambda poll: poll.voting > 99, fails])
@pytest.mark.parametrize("hurry", [0.0, None])
def test_without_a_need_all_run_and_a_note_says_so(rule: Callable[[Poll], bool], hurry: float | None) -> None:
    run = Running(Strategy("own", stop=rule), hurry=hurry, parallel=9, paths=20)
    assert run.begin() == 9
    run.session.receive(Expired("deadline"))
    notes = run.session.outcome().notes
    assert [("up to 9 paths ran at once" in note) for note in notes] == [True] * (hurry is not None)
