"""The scheduler: golden journals, and every promise about late, duplicate, failed and impossible events."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sureenough.core.events import (
    Cancel,
    Ended,
    Event,
    Expired,
    Fate,
    Regrouped,
    Start,
    Stop,
    Token,
    path_seed,
)
from sureenough.core.options import RunOptions
from sureenough.core.session import Session
from sureenough.errors import ProtocolError, UsageError
from sureenough.strategies import STRATEGIES
from tests.core.journal import journal
from tests.core.making import ddc, ended, grew, session, whole

GOLDEN = Path(__file__).parent.parent / "golden"


JOURNALS: dict[str, tuple[Callable[[], Session], list[Event]]] = {
    "ac-two-at-once": (
        lambda: Session(STRATEGIES["ac"], RunOptions(paths=6, window=2, parallel=2)),
        [grew(0, 5), ended(1, "a"), grew(2, 4), ended(0, "a"), ended(3, "a"), grew(2, 4), ended(2, "a"), grew(4, 1)],
    ),
    "ddc-warms-up-prunes-and-settles": (
        lambda: Session(ddc(), RunOptions(paths=5, window=2, parallel=2)),
        [
            grew(0, 6, 7, 6),
            grew(1, 6, 6, 5),
            ended(1, "b"),
            ended(0, "a"),
            grew(2, 6, 7),
            grew(3, 1, 1, 1),
            ended(3, "b"),
            ended(2, "a"),
            grew(4, 9, 9, 9),
            ended(4, "a"),
        ],
    ),
    "a-failed-warm-up-path-is-replaced": (
        lambda: Session(ddc(), RunOptions(paths=4, window=2, parallel=3)),
        [
            grew(0, 6),
            ended(0, None, Fate.FAILED),
            grew(1, 6, 6),
            ended(1, "a"),
            grew(2, 6, 6),
            ended(2, "b"),
            grew(3, 7, 7),
            ended(3, "b"),
        ],
    ),
    "late-and-duplicate-events": (
        lambda: Session(STRATEGIES["esc"], RunOptions(paths=9, window=2, parallel=6)),
        [
            *(ended(path, "a") for path in (4, 3, 2, 1, 0)),
            ended(0, "b"),
            grew(0, 3, 3),
            grew(5, 1),
            ended(5, "b"),
            Expired(),
            Regrouped({"a": "b"}),
        ],
    ),
    "expired": (
        lambda: Session(STRATEGIES["sc"], RunOptions(paths=4, window=2, parallel=2)),
        [grew(1, 2), ended(1, "b"), Expired("interrupted")],
    ),
}


@pytest.mark.parametrize("name", JOURNALS)
def test_journal(name: str) -> None:
    make, events = JOURNALS[name]
    assert "\n".join(journal(make(), events)) == (GOLDEN / f"{name}.txt").read_text().rstrip("\n")


# -- order, width, budget


def test_no_path_beyond_the_warm_up_starts_before_it_has_ended() -> None:
    run = Session(ddc(3), RunOptions(paths=8, window=2, parallel=8))
    assert [start.path for start in run.begin() if isinstance(start, Start)] == [0, 1, 2]
    assert run.receive(ended(0)) == run.receive(ended(2)) == []
    assert [type(action) for action in run.receive(ended(1, "b"))] == [Start] * 5


def test_votes_wait_for_every_path_started_before() -> None:
    run = session(paths=6, parallel=6)
    for path in (5, 4, 3, 2, 1):
        assert run.receive(ended(path)) == []
    assert run.snapshot().votes.counted == 0
    assert run.receive(ended(0, "b"))[-1:] == [Stop("a", "budget")], "(5, 1) is .9375: the budget decides"


def test_counting_stops_at_the_path_that_settles_and_discards_the_rest() -> None:
    run = session(paths=9, parallel=7)
    for path in (6, 5, 4, 3, 2, 1):
        run.receive(Ended(path, Fate.KEPT, "a", tokens=[Token("", 1, 1)] * 10))
    actions = run.receive(ended(0))
    assert actions == [Cancel(7, Fate.DISCARDED), Cancel(8, Fate.DISCARDED), Stop("a", "settled")]
    out = run.outcome()
    assert out.votes == {"a": 4.0}, "paths 0 to 3 settle it"
    assert (out.tokens.kept, out.tokens.discarded) == (30, 30)


def test_seeds_are_told_apart_and_repeat() -> None:
    seeds = {path_seed(run, path) for run in range(20) for path in range(200)}
    assert len(seeds) == 4000
    assert all(0 <= seed < 2**31 for seed in seeds)
    first = Session(STRATEGIES["sc"], RunOptions(paths=2, window=1, parallel=2, seed=5)).begin()
    assert first == [Start(0, path_seed(5, 0)), Start(1, path_seed(5, 1))]


def test_the_budget_counts_failed_paths_too() -> None:
    run = session(STRATEGIES["sc"], paths=3)
    run.receive(ended(0, None, Fate.FAILED))
    run.receive(ended(1, None, Fate.FAILED))
    assert run.receive(ended(2, "z")) == [Stop("z", "budget")]
    assert run.outcome().failed == 2


def test_a_warm_up_that_fails_to_the_end_of_the_budget_stops_with_what_there_is() -> None:
    run = session(ddc(2), paths=3)
    run.receive(ended(0, None, Fate.FAILED))
    whole(run, 1, "a", 5, 5)
    assert run.receive(ended(2, None, Fate.FAILED)) == [Stop("a", "budget")]
    assert run.outcome().gate is None


def test_no_answer_at_all_is_none() -> None:
    run = session(STRATEGIES["sc"], paths=1)
    assert run.receive(ended(0, None)) == [Stop(None, "budget")]
    assert run.outcome().abstained == 1


# -- classes


def test_regrouping_may_settle_the_vote() -> None:
    run = session(STRATEGIES["ac"], paths=8)
    for path, answer in enumerate(("1/2", "0.5", "1/2", "0.5")):
        run.receive(ended(path, answer))
    assert not run.done
    assert run.receive(Regrouped({"1/2": 0, "0.5": 0}))[-1] == Stop("1/2", "settled")


def test_regrouping_settles_nothing_in_the_warm_up() -> None:
    run = session(ddc(2), paths=8, window=2)
    whole(run, 0, "a", 6, 6)
    assert run.receive(Regrouped({"a": 0})) == []


def test_classes_may_be_known_from_the_start() -> None:
    run = Session(STRATEGIES["ac"], RunOptions(paths=8, window=2))
    assert run.receive(Regrouped({"x": "a", "a": "a"})) == []
    run.begin()
    run.receive(ended(0, "x"))
    run.receive(ended(1, "a"))
    assert run.snapshot().votes.weights == {"x": 2.0}


# -- the driver's bugs


@pytest.mark.parametrize(
    ("bug", "says"),
    [
        (lambda run: run.receive(grew(5, 1)), "never started"),
        (lambda run: run.receive(ended(-1)), "never started"),
        (lambda run: run.begin(), "twice"),
        (lambda run: run.receive("tokens"), "not an event"),
        (lambda run: run.outcome(), "before the run has ended"),
        (lambda _: Session(STRATEGIES["sc"], RunOptions(paths=1, window=1)).receive(grew(0, 1)), "before begin"),
    ],
)
def test_a_broken_driver_is_told(bug: Callable[[Session], Any], says: str) -> None:
    with pytest.raises(ProtocolError, match=says):
        bug(session())


@pytest.mark.parametrize(
    ("sizes", "says"),
    [
        ({"paths": 0}, "paths is 0"),
        ({"paths": 1.5}, "paths is 1.5"),
        ({"window": 0}, "window is 0"),
        ({"parallel": 0}, "parallel is 0"),
        ({"parallel": True}, "parallel is True"),
        ({"max_tokens": 0}, "max_tokens is 0"),
        ({"paths": 15}, "ask for ddc:warmup=7"),
    ],
)
def test_impossible_sizes_are_refused(sizes: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        session(STRATEGIES["ddc"], **({"paths": 64} | sizes))


@pytest.mark.parametrize(("warmup", "says"), [(-1, "warmup=-1"), (0, "give it a warmup")])
def test_a_strategy_that_prunes_needs_a_warm_up(warmup: int, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        replace(STRATEGIES["ddc"], warmup=warmup)


def test_without_a_calibration_the_warm_up_still_comes_first_and_nothing_is_pruned() -> None:
    run = session(replace(STRATEGIES["ddc-no-depth"], warmup=2), paths=3, window=2)
    for path, confs in ((0, (9, 9, 9)), (1, (8, 8, 8))):
        run.receive(grew(path, *confs))
        assert run.receive(ended(path, "ab"[path])) == [Start(path + 1, path_seed(0, path + 1), warmup=path == 0)]
    run.receive(grew(2, 0, 0, 0))
    assert run.receive(ended(2, "b")) == [Stop("a", "budget")]
    out = run.outcome()
    assert (out.pruned, out.gate, out.votes) == (0, None, {"a": 9.0, "b": 8.0})


# -- what the outcome says


def test_a_window_that_no_path_fills_is_noted() -> None:
    note = "no path was watched: the longest has 640 tokens, the window {}; try window=128"
    for window, notes in ((2048, (note.format(2048),)), (641, (note.format(641),)), (640, ())):
        run = session(ddc(1), paths=1, window=window)
        whole(run, 0, "a", *[5.0] * 640)
        assert run.outcome().notes == notes


def test_an_outcome_as_json() -> None:
    run = session(ddc(1, name="mine"), paths=1, window=2)
    whole(run, 0, "a", 6, 6)
    data = run.outcome().to_json()
    assert (data["tokens"]["total"], data["paths"], data["quantity"]) == (2, 1, "weighted_posterior")
    assert data["gate"]["floor"] is None
    assert data["tiers"] == {"drop": 0, "risk": 0}


def test_an_outcome_explains_itself_also_where_it_is_printed_and_in_notebooks() -> None:
    run = session(STRATEGIES["sc"], paths=2)
    for path, answer in enumerate(("<b>", None)):
        whole(run, path, answer, 6, 6)
    out = run.outcome()
    assert str(out).splitlines() == [
        "Answer: <b> (sc, 2 of 2 paths).",
        "Votes: <b> 100%; 1 paths gave no answer, 0 were pruned.",
        "Certificate that this is the model's most frequent answer: 1; 7 more votes for it would reach 0.05.",
        "The budget was spent when 2 paths had been counted. It samples the whole budget, whatever the votes are.",
        "It took 4 tokens (4 kept) in 4 steps.",
    ]
    assert out._repr_html_().startswith("<pre>Answer: &lt;b&gt; (sc, 2 of 2 paths).")
    assert out.to_json()["gate"] is None
    assert str(replace(out, answer=None)).startswith("No answer (sc")
