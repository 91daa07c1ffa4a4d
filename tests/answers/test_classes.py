"""Classes, the judge's budget and memo, and the grouping of a whole pool."""

from __future__ import annotations

import importlib
import itertools

import pytest

from sureenough import answers
from sureenough.answers import bounds
from sureenough.answers.symbolic import Worker, WorkerReply

# `answers.classes` is the function; this is the module that it comes from.
module = importlib.import_module("sureenough.answers.classes")
ONE, TWO = r"\sqrt{3+2\sqrt{2}}", r"1+\sqrt{2}"


class Scripted(Worker):
    """Answers from a script, and counts the questions."""

    def __init__(self, *replies: WorkerReply) -> None:
        super().__init__()
        self.replies = itertools.cycle(replies)
        self.asked: list[tuple[str, str, bool]] = []

    def ask(self, gold: str, answer: str, *, both: bool = True, limit: float = 2, patience: float = 2) -> WorkerReply:
        self.asked.append((gold, answer, both))
        return next(self.replies)


@pytest.fixture(autouse=True)
def fresh_memo(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SHARED_VERDICTS", module._VerdictCache(100))


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
    worker = Scripted(WorkerReply(True, "", 0.01))
    judge = answers.Judge(worker=worker)
    for _ in range(3):
        assert judge.same(ONE, TWO)
        assert judge.same(TWO, ONE)
        assert judge.classes([ONE, TWO]) == [0, 0]
    assert answers.Judge(worker=worker).same(ONE, TWO)  # and by no other judge either
    assert len(worker.asked) == 1
    assert judge.spent == pytest.approx(0.01)
    assert judge.unsettled == 0


def test_a_timeout_means_different_and_is_counted() -> None:
    worker = Scripted(WorkerReply(None, "timeout", 2.0))
    judge = answers.Judge(worker=worker)
    assert str(judge.explain(ONE, TWO)) == "different, timeout"
    assert judge.classes([ONE, TWO]) == [0, 1]
    assert (judge.unsettled, len(worker.asked)) == (1, 1)
    answers.Judge(worker=worker).explain(ONE, TWO)  # another question may try again
    assert len(worker.asked) == 2


def test_a_worker_that_was_not_ready_is_asked_again() -> None:
    worker = Scripted(WorkerReply(None, "timeout", 0.0, waited=2.0), WorkerReply(True, "", 0.1))
    judge = answers.Judge(worker=worker)
    assert str(judge.explain(ONE, TWO)) == "different, timeout: the worker was not ready"
    assert judge.unsettled == 1
    assert judge.same(ONE, TWO)
    assert judge.unsettled == 0


@pytest.mark.parametrize(
    ("reply", "unready"),
    [
        (WorkerReply(True, "", 0.1, waited=1.9), False),
        (WorkerReply(None, "timeout", 2.0), False),
        (WorkerReply(None, "timeout", 0.0, waited=2.0), True),
        (WorkerReply(None, "timeout", 0.1, waited=1.9), True),  # had a twentieth of its time
        (WorkerReply(None, "no worker", 0.0), True),
        (WorkerReply(None, "MemoryError", 0.5), False),
    ],
)
def test_a_judge_says_when_the_worker_was_not_ready(reply: WorkerReply, unready: bool) -> None:
    judge = answers.Judge(worker=Scripted(reply))
    assert not judge.unready
    judge.classes([ONE, TWO])
    assert judge.unready is unready


def test_the_budget_of_a_question_is_kept() -> None:
    worker = Scripted(WorkerReply(False, "", 0.15))
    judge = answers.Judge(0.2, worker=worker)
    found = judge.classes([f"\\sqrt{{{n}+2\\sqrt{{2}}}} + |{m}x|^2" for n in (3, 3) for m in range(1)] + _agreeing(5))
    assert len(set(found)) == len(set(found))
    assert len(worker.asked) == 2
    assert judge.spent == pytest.approx(0.3)
    assert judge.unsettled > 0


def _agreeing(count: int) -> list[str]:
    """Answers that agree numerically, pairwise, and that our own arithmetic cannot tell apart."""
    return [r"\cos 2x" + r" + |x|^2 - x^2" * n for n in range(count)]


def test_without_symbolic_seconds_nobody_is_asked() -> None:
    worker = Scripted(WorkerReply(True, "", 0.1))
    judge = answers.Judge(0, worker=worker)
    assert str(judge.explain(ONE, TWO)) == "different, timeout: no symbolic seconds left"
    assert (judge.unsettled, worker.asked) == (1, [])


def test_grade_puts_the_gold_first_and_asks_one_way() -> None:
    worker = Scripted(WorkerReply(True, "", 0.1))
    judge = answers.Judge(worker=worker)
    assert judge.grade(ONE, TWO)
    assert judge.grade(TWO, ONE)
    gold, answer = answers.canonical_key(ONE).text, answers.canonical_key(TWO).text
    assert worker.asked == [(gold, answer, False), (answer, gold, False)]


def test_no_answer_is_never_right() -> None:
    assert answers.grade("5", None) is False
    assert answers.grade("", "") is False


def test_a_set_costs_no_symbolic_time_where_one_element_settles_it() -> None:
    worker = Scripted(WorkerReply(True, "", 0.1))
    judge = answers.Judge(worker=worker)
    assert not judge.same(f"({ONE}, 1)", f"({TWO}, 2)")
    assert worker.asked == []


def test_a_timeout_inside_a_tuple_is_not_waited_for_again() -> None:
    worker = Scripted(WorkerReply(None, "timeout", 2.0))
    judge = answers.Judge(worker=worker)
    for tail in range(4):
        assert not judge.same(f"({ONE}, {tail})", f"({TWO}, {tail})")
    assert (len(worker.asked), judge.unsettled) == (1, 1)


def test_bounds_are_asked_before_the_worker() -> None:
    worker = Scripted(WorkerReply(True, "", 0.1))
    judge = answers.Judge(worker=worker)
    big = r"\cos(2x)^{60}"
    assert str(judge.explain(big, big + r" + |x|^2 - x^2")) == "different, too large for symbolic code"
    assert (judge.unsettled, worker.asked) == (1, [])
    assert bounds.MAX_EXPONENT < 60


def test_group_classes_every_question() -> None:
    pool: dict[str, list[str | None]] = {"a": ["1/2", "0.5", None], "b": [ONE, TWO], "c": []}
    worker = Scripted(WorkerReply(None, "timeout", 0.2))
    found = answers.group(pool, worker=worker)
    assert found.classes == {"a": [0, 0, None], "b": [0, 1], "c": []}
    assert found.unsettled == 1
    assert found.symbolic_seconds == pytest.approx(0.2)
