"""What is learned of probes from question to question, and under which window it is used."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from sureenough.core.events import Expired, Stop
from sureenough.core.learning import LearnerState
from sureenough.core.options import RunOptions
from sureenough.core.outcome import Outcome
from sureenough.core.probe_agreement import ProbeAgreement, ProbeRecord, depth_of
from sureenough.core.probing import ProbeRule
from sureenough.core.session import Session
from sureenough.drivers import replay
from sureenough.drivers.lockstep import lockstep
from sureenough.errors import UsageError
from sureenough.pools import RecordedPath
from sureenough.spec import render, resolve
from sureenough.strategies import STRATEGIES
from tests.core.making import grew, probed
from tests.core.probing import known, path, voting


def test_depths_are_parts_of_a_typical_path() -> None:
    assert [depth_of(tokens, 40.0) for tokens in (1, 4, 20, 39, 40, 4000)] == [0, 1, 5, 9, 9, 9]
    state = ProbeAgreement()
    assert state.typical_length is None
    for length in (60.0, 20.0):
        state = state.receive(ProbeRecord(length, (0,) * 10, (0,) * 10))
    assert state.typical_length == 40.0


def test_what_a_question_shows() -> None:
    paths = [path("a", 20, "b", "a", None, "a"), path("b", 20, "b"), path("c", 9), path(None, 20, "c")]
    out = replay(paths, voting(state=LearnerState()), RunOptions(window=4))
    assert out.probes is not None
    assert out.probes.length == 69 / 4, "by which depths of the first question are measured"
    assert [(out.probes.right[d], out.probes.answered[d]) for d in (2, 4, 6, 9)] == [(1, 3), (2, 3), (1, 2), (2, 3)]
    assert json.loads(json.dumps(out.to_json()))["probes"]["length"] == 69 / 4
    state = LearnerState().receive(out)
    assert state.probes.reliability(2) == (2 + 1 / 3) / 5
    assert state.probes.reliability(3) == 0.5
    later = replay(paths, voting(state=replace(state, questions=8)), RunOptions(window=4))
    assert later.probes == out.probes
    longer = replace(state.probes, lengths=40.0)
    later = replay(paths, voting(state=replace(state, probes=longer)), RunOptions(window=4))
    assert later.probes is not None
    assert [n for n in later.probes.answered if n] == [3, 3, 2, 3]
    assert later.probes.answered[1] == 3, "measured by earlier questions"
    assert replay(paths, resolve("ac+probe:every=4,agree=99"), RunOptions(window=4)).probes is None


def test_paths_that_their_probes_ended_show_nothing() -> None:
    out = replay([path("a", 40, "a")] * 3, voting(state=LearnerState(17), agree=2), RunOptions(window=4))
    assert (out.ended_by_probe, out.probes) == (3, None)
    assert LearnerState().receive(out).probes == ProbeAgreement()
    for questions in (0, 15, 24):
        out = replay([path("a", 40, "a")] * 3, voting(state=LearnerState(questions), agree=2), RunOptions(window=4))
        assert out.ended_by_probe == 0, "this question is for learning"
        assert out.probes is not None


STEADY, WAVERING = path("a", 40, "a"), path("a", 40, *"bcdefghi")
ONE_PATH, EVERY_THIRD = [[WAVERING, *[STEADY] * 15]], [[STEADY] * 4, [WAVERING] * 4, [STEADY] * 4]


@pytest.mark.parametrize("questions", [ONE_PATH, EVERY_THIRD], ids=["one path", "every third question"])
def test_what_is_learned_does_not_depend_on_what_probes_decide(questions: list[list[RecordedPath]]) -> None:
    """Paths that their probes do not end are those that waver, and so are questions without paths that they end."""
    learned = []
    for agree in (3, 99):
        state = LearnerState()
        for number in range(100):
            strategy = replace(STRATEGIES["sc+probe"], probe=ProbeRule(4, agree, votes=True, state=state))
            paths = questions[number % len(questions)]
            state = state.receive(replay(paths, strategy, RunOptions(window=4, parallel=16)))
        learned.append(state.probes)
    assert learned[0] == learned[1]
    assert learned[0].questions == 16 + 11, "the first 16, and then every eighth of 84"


def outcome() -> Outcome:
    return replay([path("a", 20, "b", "a")] * 3, voting(state=LearnerState()), RunOptions(window=4))


def test_the_state_of_a_strategy_without_weights_is_that_of_its_probes() -> None:
    assert resolve("ac+probe").state is None
    strategy = resolve("ac+probe:votes=1")
    assert (strategy.state, render(strategy)) == (LearnerState(), "ac+probe:votes=1")
    state = LearnerState().receive(outcome())
    learned = strategy.with_state(state)
    assert (learned.state, render(learned)) == (state, "ac+probe:votes=1")
    assert resolve("sure+probe:votes=1").with_state(state).probe.state == state  # type: ignore[union-attr]
    assert resolve("sure+probe").with_state(state).probe == ProbeRule()


def test_a_state_survives_json_and_damage_is_refused() -> None:
    state = LearnerState().receive(outcome())
    data: dict[str, Any] = json.loads(json.dumps(state.to_json()))
    assert LearnerState.from_json(data) == state
    assert "probes" not in LearnerState().to_json()
    probes = data["probes"]
    for damage in (
        None,
        {},
        {**probes, "lengths": -1},
        {**probes, "lengths": 0},
        {**probes, "lengths": 5e-324},
        {**probes, "lengths": float("nan")},
        {**probes, "questions": 7},
        {**probes, "depths": probes["depths"][1:]},
        {**probes, "depths": [{"sum": 2.0, "questions": 1}] * 10},
        {**probes, "depths": "0123456789"},
    ):
        with pytest.raises(UsageError, match="damaged"):
            LearnerState.from_json(data | {"probes": damage})


def test_a_state_is_used_whatever_the_window_is() -> None:
    """Probes do not depend on it, and a live run may know it only at its end."""
    for strategy, windows in ((voting("sure", LearnerState()), (32, 64)), (voting("ac", LearnerState()), (0,))):
        learned = dict.fromkeys(windows, known(0.999, questions=9995))
        run = Session(strategy, RunOptions(paths=9, parallel=8), learned=learned)
        run.begin()
        actions = []
        for number in range(8):
            run.receive(grew(number, 5, 5, 5, 5, 5))
            actions += run.receive(probed(number))
        assert actions[-1] == Stop("a", "settled")


@pytest.mark.parametrize("window", [None, 4])
def test_an_outcome_keeps_what_a_strategy_without_a_window_knew(window: int | None) -> None:
    """The window that a run without confidence has at its end is not one that anything was learned under."""
    run = Session(voting(state=LearnerState()), RunOptions(paths=9, window=window), learned={0: known(0.999)})
    run.begin()
    run.receive(Expired())
    assert run.outcome().learned == known(0.999)


def test_an_outcome_keeps_what_was_used_of_probes_under_another_window() -> None:
    """So that a replay with `outcome.learned` repeats the run."""
    paths = [path("a", 20, "a")] * 8
    learned = {16: known(0.999, questions=9994), 4: LearnerState(1, sums=(0.5, 0.0), counts=(1, 0))}
    options = RunOptions(paths=8, window=4, parallel=8)
    run = Session(voting("sure", LearnerState()), options, learned=learned)
    lockstep(paths, run, lambda: False)
    out = run.outcome()
    assert out.learned == replace(learned[4], questions=9995, probes=learned[16].probes)
    assert out.steps == 4, "probes ended it"
    repeated = replay(paths, voting("sure", out.learned), options)
    assert (repeated.steps, repeated.votes, repeated.learned) == (out.steps, out.votes, out.learned)


def test_questions_for_learning_only_come_whatever_the_window_is() -> None:
    """A run that its probes end is learned under the default window, of which the probes know nothing."""
    paths = [path("a", 20, "a")] * 8
    for others, steps in ((6, 4), (7, 20), (8, 4)):
        learned = {16: known(0.999, questions=9993), 2048: LearnerState(others)}
        run = Session(voting("ac", LearnerState()), RunOptions(paths=8, parallel=8), learned=learned)
        lockstep(paths, run, lambda: False)
        assert run.outcome().steps == steps, "9,993 and 7 are a multiple of 8"
