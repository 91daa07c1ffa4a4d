"""What holds for every answer: equality is an equality, order is nothing, noise is nothing."""

from __future__ import annotations

import itertools
import re
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sureenough import answers

from .pairs import PAIRS
from .strategies import answers as any_answer
from .strategies import monsters, noisy, wrappers

TABLED = sorted({text for pair in PAIRS for text in pair[:2] if "<|" not in text})  # a chat marker stands at the end
VECTOR = re.compile(r"\\mathbf\{\w+ ")  # \overrightarrow{AB} is written as a name that has no LaTeX of its own
some_answer = st.one_of(any_answer, st.sampled_from(TABLED))
_PIECES = r"\frac \sqrt { } ( ) [ ] ^ _ 1 2 x + - \pm , \cup \{ \} | = \sin \log \text \begin \end & \\ ! \le"
scrambled = st.one_of(
    st.text(max_size=200),
    st.text(alphabet="0123456789xyi+-*/^_(){}[]|,.=<>! \\", max_size=60),
    st.lists(st.sampled_from(_PIECES.split()), max_size=25).map(" ".join),
)


@given(st.one_of(some_answer, scrambled))
@settings(max_examples=400)
def test_any_text_is_read_and_equal_to_itself_unless_it_is_empty(answer: str) -> None:
    answers.extract(answer, "math:fallback=last-number")
    answers.extract(answer, "choice")
    assert answers.same(answer, answer) is (answers.canonical_key(answer).kind != "empty")


@given(st.lists(st.one_of(st.none(), some_answer), max_size=8), st.randoms(use_true_random=False))
@settings(max_examples=60)
def test_neither_order_nor_repeats_move_classes(given_answers: list[str | None], random: Random) -> None:
    """Classes are numbered by first appearance, whatever comes after; an empty answer is alone each time."""
    classes = answers.classes(given_answers)
    assert [number is None for number in classes] == [answer is None for answer in given_answers]
    assert list(dict.fromkeys(n for n in classes if n is not None)) == list(range(len({*classes} - {None})))

    order = random.sample(range(len(classes)), len(classes))
    shuffled = dict(zip(order, answers.classes([given_answers[at] for at in order]), strict=True))
    for i, j in itertools.combinations(range(len(classes)), 2):
        assert (classes[i] == classes[j]) is (shuffled[i] == shuffled[j])

    twice = answers.classes(given_answers * 2)
    assert twice[: len(classes)] == classes
    for answer, one, two in zip(given_answers, classes, twice[len(classes) :], strict=True):
        assert one == two or (answer is not None and answers.canonical_key(answer).kind == "empty")


@given(any_answer, wrappers, st.sampled_from(["\\frac", "\\dfrac", "\\tfrac"]), st.booleans(), st.booleans())
def test_formatting_noise_never_changes_a_key(
    answer: str, wrapper: str, fraction: str, sizing: bool, spaced: bool
) -> None:
    assert answers.canonical_key(noisy(answer, wrapper, fraction, sizing, spaced)) == answers.canonical_key(answer)


@given(st.sampled_from(TABLED), wrappers)
def test_wrapping_never_changes_a_tabled_key(answer: str, wrapper: str) -> None:
    wrapped = wrapper.replace("{}", answer) if wrapper != "{{{}}}" else "{" + answer + "}"
    assert answers.canonical_key(wrapped) == answers.canonical_key(answer)


@given(st.one_of(some_answer, monsters))
@settings(deadline=None)
def test_the_text_of_a_key_reads_back_as_that_key(answer: str) -> None:
    key = answers.canonical_key(answer)
    if key.kind in ("number", "expression") and not VECTOR.search(key.text):
        assert answers.canonical_key(key.text) == key


@given(st.one_of(monsters, some_answer), st.one_of(monsters, some_answer))
@settings(max_examples=300, deadline=None)
def test_issue_14_0_no_pair_raises_and_both_orders_agree(one: str, two: str) -> None:
    forward = answers.explain(one, two)
    assert forward == answers.explain(two, one)
    assert (len(set(answers.classes([one, two]))) == 1) is forward.same
    answers.grade(one, two, percent=True, rounding=True, decimal_comma=True)


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("2^{2024}-1", "2^n-1"),
        ("10^{400}", "x+1"),
        ("-3970 f(1986) - 7876480", "1" * 60),
        ("11_2", "h(2^{50})"),
        ("10^{400}", "1" + "0" * 400),
    ],
)
def test_issue_14_0_ordinary_answers_do_not_raise(one: str, two: str) -> None:
    same = two.startswith("10")
    assert answers.same(one, two) is same
    assert answers.grade(one, two) is same
    assert len(set(answers.classes([one, two, "x"]))) == 2 + (not same)
