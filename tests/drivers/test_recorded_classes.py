"""A run keeps which answers counted as one, so that a rerun groups them in the same way without its judge."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import sureenough as se
from sureenough.answers.kinds import FunctionJudge
from sureenough.core.events import path_seed
from sureenough.drivers.judging import classes_or_own
from sureenough.engines import Fake

ANSWERS = ("yes", "Yes", "no", "no")
KIND = se.judge(key=str.casefold)


def ask() -> se.Outcome:
    """A run in which the seed of a path decides its answer."""
    engine = Fake(lambda seed: [[se.Token(rf"\boxed{{{ANSWERS[seed % 4]}}}", 0.5, 9.0)]])
    return se.ask("?", engine, "sc", paths=24, kind=KIND)


def replay(out: se.Outcome, classes: Sequence[Sequence[str]]) -> se.Outcome:
    """The same paths again, with a judge that must not be asked."""

    def refuse(answers: Sequence[str]) -> Sequence[Hashable]:
        raise AssertionError("the judge was asked")

    seeds = [path_seed(out.options.seed, number) for number in range(out.started)]
    paths = [se.RecordedPath(ANSWERS[seed % 4], [0.5], [9.0]) for seed in seeds]
    return se.replay(paths, "sc", kind=FunctionJudge(KIND.extract, refuse, KIND.grade), classes=classes)


def test_a_replay_with_a_runs_classes_asks_no_judge() -> None:
    out = ask()
    assert len(out.classes) == len(out.votes) == 2
    assert {answer for group in out.classes for answer in group} == set(ANSWERS)
    again = replay(out, out.classes)
    assert (again.votes, again.classes, again.notes) == (out.votes, out.classes, ())


def test_new_answers_join_the_classes_that_the_judge_finds() -> None:
    classes, note = classes_or_own(KIND, ["A", "a", "b", "c", "D", "d"], [["a", "b"], ["c"]])
    assert note is None
    assert classes["A"] == classes["a"] == classes["b"] != classes["c"]
    assert classes["D"] == classes["d"] not in (classes["a"], classes["c"])
