"""Paths that start before the warm-up has ended: which of them belong to it, and what the gate does to the others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from sureenough.core.confidence.array import scan
from sureenough.core.events import (
    Action,
    Cancel,
    Classify,
    Ended,
    Expired,
    Fate,
    Regrouped,
    Start,
    Stop,
    Summary,
    Tokens,
)
from sureenough.core.options import RunOptions
from sureenough.core.probing import ProbeRule
from sureenough.core.pruning import OPEN_GATE, Tier
from sureenough.core.session import Session
from sureenough.core.snapshot import Phase
from sureenough.errors import ProtocolError, UsageError
from sureenough.strategies import STRATEGIES
from tests.core.making import NEVER, ddc, ended, grew, probed, session

WARMUP = ddc(2, stop=NEVER)


def eager(strategy: Any = WARMUP, **sizes: Any) -> Session:
    return session(strategy, **({"paths": 5, "parallel": 5, "eager": True} | sizes))


def warm_up(run: Session) -> list[Any]:
    """End paths 0 and 1; what follows."""
    for path, answer in enumerate("ab"):
        run.receive(grew(path, 6, 6, 6))
        actions = run.receive(ended(path, answer))
    return actions


def started(actions: list[Action]) -> list[Start]:
    assert all(isinstance(action, Start) for action in actions)
    return [action for action in actions if isinstance(action, Start)]


def fates(run: Session) -> list[tuple[Fate | None, int, int]]:
    return [(path.fate, path.tokens, path.overrun) for path in run.snapshot().paths]


@pytest.mark.parametrize(("parallel", "paths", "first"), [(5, 5, 5), (3, 5, 3), (64, 5, 5), (1, 5, 1)])
def test_as_many_start_as_may_run(parallel: int, paths: int, first: int) -> None:
    run = Session(WARMUP, RunOptions(paths=paths, window=2, parallel=parallel, eager=True))
    starts = started(run.begin())
    assert [start.warmup for start in starts] == [n < 2 for n in range(first)]
    assert [start.gate for start in starts] == [OPEN_GATE if n < 2 else None for n in range(first)]


def test_a_path_that_ends_in_the_warm_up_is_followed_by_another() -> None:
    run = eager(parallel=2)
    run.receive(grew(0, 6, 6))
    (start,) = started(run.receive(ended(0, "a")))
    assert (start.path, start.warmup, start.gate) == (2, False, None)
    run.receive(grew(1, 6, 6))
    (after,) = started(run.receive(ended(1, "b")))
    assert (after.path, after.gate) == (3, run.snapshot().gate), "it starts with the gate"


def test_a_strategy_without_a_warm_up_runs_as_it_does() -> None:
    runs = [session(STRATEGIES["ac"], parallel=3, eager=eager) for eager in (False, True)]
    for event in (ended(1), ended(0), ended(2), ended(3)):
        assert runs[0].receive(event) == runs[1].receive(event)
    assert replace(runs[1].outcome(), eager=False) == runs[0].outcome()


def test_the_gate_closes_on_what_a_running_path_has_generated() -> None:
    run = eager()
    run.receive(grew(2, 6, 6, 1, 1, 1))
    run.receive(grew(3, 7, 7, 7))
    assert warm_up(run) == [Cancel(2, Fate.PRUNED)]
    assert fates(run)[2:] == [(Fate.PRUNED, 3, 2), (None, 3, 0), (None, 0, 0)]
    assert run.receive(grew(2, 1)) == []
    assert run.receive(grew(3, 1, 1)) == [Cancel(3, Fate.PRUNED)], "it is watched from here on"
    assert run.receive(grew(4, 7, 7, 1, 1)) == [Cancel(4, Fate.PRUNED), Stop("a", "budget")]
    out = run.outcome()
    assert (out.tokens.init, out.tokens.pruned, out.tokens.overrun, out.tokens.total) == (6, 3 + 4 + 3, 3 + 1 + 1, 21)
    assert (out.pruned, out.tiers[Tier.DROP], out.votes, out.eager) == (3, 3, {"a": 6.0, "b": 6.0}, True)


def test_the_gate_closes_on_a_path_that_has_ended() -> None:
    run = eager()
    for path, confs, answer in ((2, (6, 1, 9, 9), "c"), (3, (7, 7), "b"), (4, (9,), "d")):
        run.receive(grew(path, *confs))
        assert run.receive(ended(path, answer)) == []
    assert warm_up(run) == [Stop("b", "budget")]
    assert fates(run)[2:] == [(Fate.PRUNED, 2, 2), (Fate.KEPT, 2, 0), (Fate.KEPT, 1, 0)]
    out = run.outcome()
    assert out.votes == {"b": 13.0, "d": 9.0, "a": 6.0}
    assert (out.pruned, out.abstained, out.counted) == (1, 0, 5)
    assert (out.tokens.init, out.tokens.kept, out.tokens.pruned, out.tokens.overrun) == (6, 3, 2, 2)


def test_an_answer_is_compared_only_if_its_path_is_counted() -> None:
    run = Session(WARMUP, RunOptions(paths=4, window=2, parallel=4, eager=True))
    run.receive(Regrouped({}))
    run.begin()
    run.receive(grew(2, 1, 1, 1))
    run.receive(ended(2, "pruned"))
    run.receive(grew(3, 7, 7))
    run.receive(ended(3, "c"))
    assert warm_up(run) == []
    assert run.receive(Regrouped({"a": 0})) == [Classify(("a", "b"))]
    assert run.snapshot().phase is Phase.WARMUP
    assert run.receive(Regrouped({"a": 0, "b": 1})) == [Classify(("a", "b", "c"))]
    assert run.receive(Regrouped({"a": 0, "b": 1, "c": 0})) == [Stop("a", "budget")]


def test_a_path_that_runs_already_takes_the_place_of_one_that_failed() -> None:
    run = eager()
    run.receive(grew(2, 1, 1, 1))
    run.receive(ended(2, "c"))
    run.receive(grew(0, 6))
    run.receive(ended(0, None, Fate.FAILED))
    assert [path.warmup for path in run.snapshot().paths] == [True, True, True, False, False]
    run.receive(grew(1, 6, 6))
    run.receive(ended(1, "a"))
    assert run.snapshot().phase is Phase.SAMPLING
    assert fates(run)[:3] == [(Fate.FAILED, 1, 0), (Fate.KEPT, 2, 0), (Fate.KEPT, 3, 0)], "it calibrates, and votes"
    run.receive(Expired())
    assert (run.outcome().tokens.init, run.outcome().votes) == (5, {"a": 6.0, "c": 1.0})


def test_a_failed_path_beyond_the_warm_up_takes_no_place_in_it() -> None:
    run = eager(parallel=3)
    for path in (2, 0):
        assert [start.warmup for start in started(run.receive(ended(path, None, Fate.FAILED)))] == [False]
    assert [path.warmup for path in run.snapshot().paths] == [True, True, False, True, False]
    for path in (1, 3):
        run.receive(grew(path, 6, 6))
        run.receive(ended(path, "a"))
    assert run.snapshot().phase is Phase.SAMPLING


def test_without_a_path_beyond_the_warm_up_the_next_one_to_start_replaces_a_failed_one() -> None:
    run = eager(parallel=2)
    (start,) = started(run.receive(ended(1, None, Fate.FAILED)))
    assert start == Start(2, start.seed, warmup=True)


@pytest.mark.parametrize(("conf", "votes"), [(9.0, {"c": 9.0, "b": 8.0}), (7.0, {"b": 8.0})])
def test_the_floor_is_for_the_warm_up_and_the_gate_for_the_others(conf: float, votes: dict[str, float]) -> None:
    strategy = replace(STRATEGIES["deepconf-low"], warmup=2, stop=NEVER)
    run = eager(strategy, paths=3)
    run.receive(grew(2, conf, conf))
    run.receive(ended(2, "c"))
    for path, lowest in ((0, 6), (1, 8)):
        run.receive(grew(path, lowest, lowest))
        run.receive(ended(path, "ab"[path]))
    out = run.outcome()
    assert out.gate is not None
    assert 7 < out.gate.floor < 8
    assert (out.votes, out.reason) == (votes, "budget")


def test_a_vote_that_the_warm_up_settles_discards_the_rest() -> None:
    run = eager(ddc(2), paths=4)
    run.receive(grew(2, 1, 1))
    run.receive(ended(2, "c"))
    run.receive(grew(3, 1))
    run.receive(grew(0, 6, 6))
    run.receive(ended(0, "a"))
    run.receive(grew(1, 6, 6))
    assert run.receive(ended(1, "a")) == [Cancel(3, Fate.DISCARDED), Stop("a", "settled")]
    out = run.outcome()
    assert (out.tokens.discarded, out.tokens.overrun, out.pruned, out.ended_uncounted) == (3, 0, 0, 1)


def test_the_cap_counts_what_is_overrun_later() -> None:
    run = eager(max_tokens=10)
    run.receive(grew(2, 1, 1, 1))
    assert warm_up(run) == [Cancel(2, Fate.PRUNED)]
    actions = run.receive(grew(3, 7, 7))
    assert actions == [Cancel(3, Fate.DISCARDED), Cancel(4, Fate.DISCARDED), Stop("a", "max_tokens")]
    tokens = run.outcome().tokens
    assert (tokens.init, tokens.pruned, tokens.overrun, tokens.discarded, tokens.total) == (6, 2, 2, 1, 11)


def test_a_run_that_ends_in_the_warm_up_counts_the_first_paths_only() -> None:
    run = eager()
    for path, answer in ((0, "a"), (2, "c"), (3, "c")):
        run.receive(grew(path, 6, 6))
        run.receive(ended(path, answer))
    run.receive(Expired())
    out = run.outcome()
    assert (out.votes, out.counted, out.tokens.init, out.tokens.discarded) == ({"a": 6.0}, 1, 2, 4)


def test_the_window_is_chosen_from_the_warm_up_alone() -> None:
    run = eager(window=None, paths=4)
    for path, length in ((3, 4000), (2, 4000), (0, 300), (1, 340)):
        run.receive(grew(path, *[6.0] * length))
        run.receive(ended(path, "a"))
    out = run.outcome()
    assert (out.window, out.window_paths, out.counted) == (64, 2, 4)


# -- engines that watch their own paths


def summary(*confs: float, window: int = 2, signals: bool = True) -> Summary:
    pairs = np.array([(0.5, conf) for conf in confs])
    windows = scan(pairs[:, 0], pairs[:, 1], window)
    return Summary(len(confs), windows.lowest, windows.tail, None, windows, 0.5, 6.0, pairs if signals else None)


@pytest.mark.parametrize("window", [2, None])
@pytest.mark.parametrize("after", [True, False])
def test_a_path_that_its_engine_watched_is_tested_at_its_end(after: bool, window: int | None) -> None:
    """By its trace, before or after the end of the warm-up; the window of the trace need not be that of the run."""
    run = eager(window=window, paths=4)
    traces = {2: [*[6.0] * 30, *[1.0] * 30], 3: [7.0] * 20}
    for path in traces:
        run.receive(Tokens(path, unread=10))
    for path in (0, 1, 2, 3) if after else (2, 3, 0, 1):
        trace = summary(*traces.get(path, [6.0] * 40), window=window or 1)
        run.receive(Ended(path, Fate.KEPT, "abcd"[path], trace))
    out = run.outcome()
    assert set(out.votes) == {"a", "b", "d"}
    assert out.pruned == 1
    assert out.tokens.pruned + out.tokens.overrun == 60
    assert out.tokens.pruned == 31, "the first window with a token of little confidence"
    assert (out.tokens.init, out.tokens.kept, out.tokens.total) == (80, 20, 160)


def test_a_summary_without_the_windows_is_the_engines_fault() -> None:
    run = eager()
    run.receive(Tokens(2, unread=3))
    warm_up(run)
    with pytest.raises(ProtocolError, match="path 2, started in the warm-up, came without its windows"):
        run.receive(Ended(2, Fate.KEPT, "c", Summary(3, 6.0, 6.0)))


def test_a_strategy_that_does_not_prune_needs_no_windows() -> None:
    run = eager(replace(STRATEGIES["ddc-no-depth"], warmup=2, stop=NEVER), paths=3)
    run.receive(Ended(2, Fate.KEPT, "c", Summary(3, 5.0, 5.0)))
    warm_up(run)
    assert run.outcome().votes == {"a": 6.0, "b": 6.0, "c": 5.0}


# -- probes


def test_a_path_that_its_probes_ended_may_be_pruned() -> None:
    run = eager(ddc(2, stop=NEVER, probe=ProbeRule(4, 1)), paths=3)
    run.receive(grew(2, 6, 1, 1, 9, 9))
    assert run.receive(probed(2, "c")) == [Cancel(2, Fate.KEPT)]
    warm_up(run)
    out = run.outcome()
    assert (out.votes, out.pruned, out.ended_by_probe) == ({"a": 6.0, "b": 6.0}, 1, 0)
    assert (out.tokens.pruned, out.tokens.overrun, out.tokens.probe) == (2, 3, 3)


def test_what_waits_for_a_probe_is_overrun_if_the_gate_closes() -> None:
    run = eager(ddc(2, stop=NEVER, probe=ProbeRule(4, 1)), paths=3)
    run.receive(grew(2, 6, 1, 1, 9, 9))
    assert warm_up(run) == [Cancel(2, Fate.PRUNED), Stop("a", "budget")]
    assert run.receive(probed(2, "c")) == []
    out = run.outcome()
    assert (out.tokens.pruned, out.tokens.overrun, out.tokens.probe, out.tokens.total) == (2, 3, 3, 14)


# -- the option


def test_votes_in_order_of_finish_are_refused() -> None:
    with pytest.raises(UsageError, match=r"count=finish does not go with eager, .* leave one of them out"):
        RunOptions(count="finish", eager=True)


def test_it_is_off_by_default() -> None:
    assert not RunOptions().eager
    with pytest.raises(UsageError, match="eager is 1; it must be true or false"):
        RunOptions(eager=1)  # type: ignore[arg-type]


def test_votes_of_probes_are_refused() -> None:
    """Paths that the gate will prune would vote before it is known."""
    probing = replace(STRATEGIES["ddc"], probe=ProbeRule(votes=True))
    with pytest.raises(UsageError, match=r"votes=1 cannot run with eager: .* leave out votes=1 or eager"):
        Session(probing, RunOptions(paths=32, eager=True))
    Session(replace(STRATEGIES["ac"], probe=ProbeRule(votes=True)), RunOptions(paths=32, eager=True))  # no warm-up
    Session(probing, RunOptions(paths=32))
