"""The sealed session: phases and their transitions, frozen snapshots, and votes that wait for their class."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import FrozenInstanceError, replace

import pytest

from sureenough.core.events import Action, Answer, Classify, Expired, Fate, Regrouped, Start, Stop
from sureenough.core.options import RunOptions
from sureenough.core.outcome import Phase
from sureenough.core.session import TRANSITIONS, Session
from sureenough.core.strategy import Strategy
from sureenough.core.weights import Ballot
from sureenough.errors import ProtocolError, UsageError
from sureenough.strategies import STRATEGIES
from tests.core.making import ddc, ended, grew, session, whole


def grouped(strategy: Strategy | None = None, **sizes: int) -> Session:
    """A session whose driver has promised to answer `Classify`."""
    run = Session(strategy or STRATEGIES["ac"], RunOptions(**({"paths": 8, "window": 2} | sizes)))
    run.receive(Regrouped({}))
    run.begin()
    return run


def requests(actions: Sequence[Action]) -> list[tuple[Answer, ...]]:
    return [action.answers for action in actions if isinstance(action, Classify)]


def test_the_phases_of_a_run_with_a_warm_up() -> None:
    run = Session(ddc(2), RunOptions(paths=4, window=2))
    phases = [run.snapshot().phase]
    run.begin()
    for path in range(4):
        phases.append(run.snapshot().phase)
        whole(run, path, "ab"[path % 2], 6, 6 + path)
    phases.append(run.snapshot().phase)
    assert phases == [Phase.NEW, Phase.WARMUP, Phase.WARMUP, Phase.SAMPLING, Phase.SAMPLING, Phase.STOPPED]


def test_every_phase_has_a_row_and_only_the_table_is_allowed() -> None:
    assert set(TRANSITIONS) == set(Phase)
    run = session()
    with pytest.raises(ProtocolError, match="no transition from sampling to warm-up"):
        run._enter(Phase.WARMUP)


def test_a_run_may_expire_before_it_begins() -> None:
    run = Session(STRATEGIES["ac"], RunOptions(paths=8, window=2))
    assert run.receive(Expired("deadline")) == [Stop(None, "deadline")]
    assert (run.outcome().started, run.outcome().tokens.total) == (0, 0)


def test_a_session_needs_a_budget() -> None:
    with pytest.raises(UsageError, match="needs a budget"):
        Session(STRATEGIES["ac"], RunOptions(window=2))


def test_a_snapshot_stays_as_it_was() -> None:
    run = session(paths=4, parallel=2)
    before = run.snapshot()
    whole(run, 0, "a", 1, 2, 3)
    after = run.snapshot()
    assert [path.tokens for path in before.paths] == [0, 0]
    assert (before.votes.counted, before.votes.weights) == (0, {})
    assert (after.paths[0].tokens, after.paths[0].fate, after.paths[0].counted) == (3, Fate.KEPT, True)
    assert (after.votes.weights, after.votes.candidates) == ({"a": 1.0}, {0: "a"})
    assert (after.generated, after.full_budget_tokens(), after.steps) == (3, 12.0, 3)
    with pytest.raises(FrozenInstanceError):
        after.steps = 5  # type: ignore[misc]


def test_a_vote_waits_for_the_class_of_its_answer() -> None:
    run = grouped(paths=6)
    actions = run.receive(ended(0, "1/2"))
    assert actions == [Classify(("1/2",))], "and no path starts before the vote is counted"
    assert run.snapshot().votes.counted == 0
    actions = run.receive(Regrouped({"1/2": 0}))
    assert [type(action) for action in actions] == [Start]
    assert run.snapshot().votes.weights == {"1/2": 1.0}
    assert requests(run.receive(ended(1, "1/2"))) == []
    assert requests(run.receive(ended(2, "0.5"))) == [("1/2", "0.5")]
    run.receive(Regrouped({"1/2": 0, "0.5": 0}))
    assert run.snapshot().votes.weights == {"1/2": 3.0}


def test_answers_are_classified_in_the_order_of_counting_whoever_ends_first() -> None:
    run = grouped(paths=6, parallel=3)
    assert requests(run.receive(ended(2, "c"))) == [], "paths 0 and 1 come first"
    assert requests(run.receive(ended(1, "b"))) == []
    assert requests(run.receive(ended(0, "a"))) == [("a",)]
    assert requests(run.receive(Regrouped({"a": 0}))) == [("a", "b")]
    assert requests(run.receive(Regrouped({"a": 0, "b": 1}))) == [("a", "b", "c")]
    run.receive(Regrouped({"a": 0, "b": 1, "c": 0}))
    assert run.snapshot().votes.weights == {"a": 2.0, "b": 1.0}


def test_warm_up_paths_are_classified_before_anything_is_calibrated() -> None:
    run = grouped(ddc(2), parallel=2)
    for path in (0, 1):
        run.receive(grew(path, 6, 6))
    assert requests(run.receive(ended(0, "x"))) == [("x",)]
    assert run.receive(ended(1, "y")) == []
    assert requests(run.receive(Regrouped({"x": 0}))) == [("x", "y")]
    assert run.snapshot().phase is Phase.WARMUP
    assert run.receive(Regrouped({"x": 0, "y": 0})) == [Stop("x", "settled")]
    assert run.snapshot().votes.weights == {"x": 12.0}


def test_a_run_that_ends_while_a_class_is_awaited_discards_that_path() -> None:
    run = grouped(paths=3)
    whole(run, 0, "a", 1, 1)
    assert run.receive(Expired("deadline")) == [Stop(None, "deadline")]
    assert (run.outcome().tokens.discarded, run.outcome().votes) == (2, {})
    assert run.receive(Regrouped({"a": 0})) == []


def test_a_plain_callable_may_weigh_votes_and_does_so_anew_for_every_vote() -> None:
    def by_number(ballots: Sequence[Ballot], warmup: Sequence[float]) -> list[float]:
        return [(1.0 + ballot.path) / len(ballots) for ballot in ballots]

    mine = replace(STRATEGIES["sc"], name="mine", weigh=by_number)  # type: ignore[arg-type]
    assert mine.reads_confidence
    run = session(mine, paths=3)
    for path, answer in enumerate("aab"):
        whole(run, path, answer, 1)
    assert run.outcome().votes == {"a": 1.0, "b": 1.0}
