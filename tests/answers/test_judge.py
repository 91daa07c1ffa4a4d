"""Classes, the judge's budget and memo, and the grouping of a whole pool."""

from __future__ import annotations

import itertools

import pytest

from sureenough import answers
from sureenough.answers import bounds
from sureenough.answers.judge import STEPS_PER_SECOND
from sureenough.answers.symbolic import SymbolicWorker, WorkerReply

ONE, TWO = r"\sqrt{3+2\sqrt{2}}", r"1+\sqrt{2}"


TIMEOUT = WorkerReply(None, "timeout", seconds=2.0, settled=False)


def steps(seconds: float, same: bool | None = True, why: str = "") -> WorkerReply:
    """A reply that took this many symbolic seconds."""
    return WorkerReply(same, why, int(seconds * STEPS_PER_SECOND))


class Scripted(SymbolicWorker):
    """Replies from a script, and records the requests that reach the children."""

    def __init__(self, *replies: WorkerReply) -> None:
        super().__init__()
        self.replies = itertools.cycle(replies)
        self.requested: list[tuple[str, str, bool]] = []

    def _submit(self, pair: tuple[str, str, bool], patience: float) -> WorkerReply:
        self.requested.append(pair)
        return next(self.replies)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([], []),
        ([None], [None]),
        ([None, "1", None, "1"], [None, 0, None, 0]),
        (["0.5", None, "1/2", "7", r"\frac12"], [0, None, 0, 1, 0]),
        (["7", "0.5", "1/2", "7"], [0, 1, 1, 0]),
        (["5", "500", "5.0"], [0, 1, 0]),
        (["", "", "5", ""], [0, 1, 2, 3]),
        (["x=5", "y=5", "5"], [0, 0, 0]),
        (["0.333333333333", "1/3", "0.33333333333333"], [0, 0, 0]),
        (["A", "(A)", r"\text{(B)}", "B"], [0, 0, 1, 1]),
        (["y=2x+3", "2x-y+3=0", "2x+3"], [0, 1, 0]),
        (["52", "52_8", "42"], [0, 0, 1]),
        (["52_8", "52_9", "52"], [0, 1, 0]),  # never one class, although both are the same as 52
    ],
)
def test_classes(given: list[str | None], expected: list[int | None]) -> None:
    assert answers.classes(given) == expected


def test_nothing_is_chained() -> None:
    """Two answers that equal a third, but not each other, go with their representatives, in any order."""
    given = ["2x+3", "y=2x+3", "2x-y+3=0"]
    for order in itertools.permutations(given):
        found = dict(zip(order, answers.classes(order), strict=True))
        assert found["2x+3"] == found["y=2x+3"] != found["2x-y+3=0"]


def test_a_generator_will_do() -> None:
    assert answers.classes(answer for answer in ("1", "2", "1.0")) == [0, 1, 0]


def test_a_verdict_is_asked_for_once() -> None:
    worker = Scripted(steps(0.01))
    judge = answers.MathJudge(worker=worker)
    for _ in range(3):
        assert judge.same(ONE, TWO)
        assert judge.same(TWO, ONE)
        assert judge.classes([ONE, TWO]) == [0, 0]
    assert answers.MathJudge(worker=worker).same(ONE, TWO)  # nor again for another question
    assert len(worker.requested) == 1
    assert judge.unsettled == 0


def test_a_timeout_means_different_and_is_counted() -> None:
    worker = Scripted(TIMEOUT)
    judge = answers.MathJudge(worker=worker)
    assert str(judge.explain(ONE, TWO)) == "different, no verdict in time"
    assert judge.classes([ONE, TWO]) == [0, 1]
    assert judge.unsettled == 1


def test_a_verdict_that_comes_late_is_used_by_the_next_call() -> None:
    worker = Scripted(TIMEOUT, steps(0.1))
    judge = answers.MathJudge(worker=worker)
    assert not judge.same(ONE, TWO)
    assert judge.unsettled == 1
    assert judge.same(ONE, TWO)
    assert judge.unsettled == 0


def test_a_judge_waits_for_its_patience_in_all() -> None:
    waits: list[float] = []

    class Slow(Scripted):
        def _submit(self, pair: tuple[str, str, bool], patience: float) -> WorkerReply:
            waits.append(patience)
            return WorkerReply(None, "timeout", seconds=0.75, settled=False)

    judge = answers.MathJudge(worker=Slow())
    judge.classes(_agreeing(4))
    assert waits[:4] == [2.0, 1.25, 0.5, 0.0]
    assert judge.unready


@pytest.mark.parametrize(
    ("reply", "unready"),
    [
        (steps(0.1), False),
        (steps(0.6, None, "too many steps"), False),
        (steps(0.5, None, "MemoryError"), False),
        (TIMEOUT, True),
        (WorkerReply(None, "no worker", settled=False), True),
    ],
)
def test_a_judge_reports_verdicts_that_another_run_may_not_give(reply: WorkerReply, unready: bool) -> None:
    judge = answers.MathJudge(worker=Scripted(reply))
    assert not judge.unready
    judge.classes([ONE, TWO])
    assert judge.unready is unready


def test_the_budget_counts_steps_and_not_seconds() -> None:
    worker = Scripted(steps(0.15, same=False))
    judge = answers.MathJudge(0.2, worker=worker)
    judge.classes(_agreeing(5))
    assert len(worker.requested) == 2
    assert judge.spent == pytest.approx(0.3)
    assert judge.unsettled > 0


def test_known_verdicts_cost_what_they_cost_at_first() -> None:
    """Classes are those of a fresh process, whatever earlier questions have already found out."""
    worker = Scripted(steps(0.15, same=False), steps(0.05), steps(0.15), steps(0.01, same=False))
    fresh = answers.MathJudge(0.2, worker=worker)
    first = fresh.classes(_agreeing(5))
    assert fresh.classes(_agreeing(5)) == first
    answers.MathJudge(10.0, worker=worker).classes(_agreeing(5))  # every verdict is known now
    assert answers.MathJudge(0.2, worker=worker).classes(_agreeing(5)) == first


def _agreeing(count: int) -> list[str]:
    """Answers that agree numerically, pairwise, and that our own arithmetic cannot tell apart."""
    return [r"\cos 2x" + r" + |x|^2 - x^2" * n for n in range(count)]


def test_without_symbolic_seconds_the_worker_is_not_used() -> None:
    worker = Scripted(steps(0.1))
    judge = answers.MathJudge(0, worker=worker)
    assert str(judge.explain(ONE, TWO)) == "different, no symbolic seconds left"
    assert (judge.unsettled, worker.requested) == (1, [])


def test_grade_puts_the_gold_first_and_asks_one_way() -> None:
    worker = Scripted(steps(0.1))
    judge = answers.MathJudge(worker=worker)
    assert judge.grade(ONE, TWO)
    assert judge.grade(TWO, ONE)
    gold, answer = answers.canonical_key(ONE).text, answers.canonical_key(TWO).text
    assert worker.requested == [(gold, answer, False), (answer, gold, False)]


def test_an_internal_error_counts_as_different_with_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise KeyError("a defect")

    monkeypatch.setattr("sureenough.answers.compare.fingerprints_differ", broken)
    judge = answers.MathJudge(0)
    assert judge.classes(["x+1", "x+2", "5"]) == [0, 1, 2]
    assert str(judge.explain("x+1", "x+2")) == "different, internal error: KeyError"
    assert not judge.grade("x+1", "x+2")
    assert len(judge.notes) == 1
    assert "a defect" in judge.notes[0]


def test_no_answer_is_never_right() -> None:
    assert answers.grade("5", None) is False
    assert answers.grade("", "") is False


def test_a_set_costs_no_symbolic_time_where_one_element_settles_it() -> None:
    worker = Scripted(steps(0.1))
    judge = answers.MathJudge(worker=worker)
    assert not judge.same(f"({ONE}, 1)", f"({TWO}, 2)")
    assert worker.requested == []


def test_bounds_are_asked_before_the_worker() -> None:
    worker = Scripted(steps(0.1))
    judge = answers.MathJudge(worker=worker)
    big = r"\cos(2x)^{60}"
    assert str(judge.explain(big, big + r" + |x|^2 - x^2")) == "different, too large for symbolic code"
    assert (judge.unsettled, worker.requested) == (1, [])
    assert bounds.MAX_EXPONENT < 60


def test_a_judge_says_what_it_spent_and_left_open() -> None:
    worker = Scripted(steps(0.2, None, "too many steps"))
    judges = [answers.MathJudge(worker=worker) for _ in range(3)]
    given: list[list[str | None]] = [["1/2", "0.5", None], [ONE, TWO], []]
    found = [judge.classes(own) for judge, own in zip(judges, given, strict=True)]
    assert found == [[0, 0, None], [0, 1], []]
    assert [judge.unsettled for judge in judges] == [0, 1, 0]
    assert [judge.spent for judge in judges] == [0, pytest.approx(0.2), 0]
