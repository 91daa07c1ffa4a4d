"""Made-up signs of known quality: what the table of `bench long` says on questions whose outcome can be calculated."""

from __future__ import annotations

import numpy as np
import pytest

from sureenough.bench.experiments.needed_sign import AREAS, KNOWN, ReadNeededSigns, compared, distance, paths_of
from sureenough.bench.judging import JudgedAnswers
from sureenough.pools import Question, RecordedPath

JUDGED = JudgedAnswers({"7": 0, "8": 1, "9": 2}, {"7": True, "8": False, "9": False})


def path(answer: str | None, tokens: int = 100) -> RecordedPath:
    return RecordedPath(answer, np.full(tokens, 0.5), np.full(tokens, 9.0))


def question(answers: str, tokens: int = 100) -> Question:
    """One letter per path; a dot is a path without an answer."""
    return Question("q", "7", None, [path(None if letter == "." else letter, tokens) for letter in answers])


@pytest.mark.parametrize("area", AREAS[:-1])
def test_a_sign_has_the_area_that_it_is_made_for(area: float) -> None:
    noise = np.random.default_rng(1).standard_normal((2, 40_000))
    right, wrong = noise[0] + distance(area), noise[1]
    assert np.mean(right > wrong) == pytest.approx(area, abs=0.01)


def test_a_sign_that_never_errs_makes_a_minority_win_and_the_same_tokens_do_not_without_it() -> None:
    asked = question("7" * 40 + "8" * 60)
    found = ReadNeededSigns(repeats=5, seed=0, budget=None)(asked, JUDGED)
    assert found is not None
    perfect, useless = found[AREAS.index(1.0)], found[AREAS.index(0.5)]
    assert (perfect[:, 0] == 1.0).all()
    assert (perfect[:, 1] <= 0.4).all()
    assert (useless[:, 0] <= 0.4).all()


def test_tokens_are_those_of_the_paths_that_go_on_and_of_the_beginnings_of_the_others() -> None:
    found = ReadNeededSigns(repeats=2, seed=0, budget=None)(question("7788" * 8), JUDGED)
    assert found is not None
    expected = [0.5 + 0.5 * part for part in KNOWN]
    assert found[:, :, 2] == pytest.approx(np.tile(expected, (len(AREAS), 1)))


def test_paths_that_ended_before_a_sign_is_known_are_not_pruned() -> None:
    order = [path("7", 10)] * 9 + [path("8", 1_000)] * 3
    paths = paths_of(order, JUDGED, JUDGED.right or {})
    sign_against_right = np.array([-9.0] * 9 + [9.0] * 3)  # the worst six are short, and have ended by then
    found = compared(paths, sign_against_right)
    assert found[AREAS.index(0.5), KNOWN.index(0.5)].tolist() == [1.0, 1.0, 1.0]


def test_ties_are_broken_by_chance_and_questions_that_say_nothing_are_left_out() -> None:
    paths = paths_of([path("7"), path("8"), path(None)], JUDGED, JUDGED.right or {})
    assert paths.score(np.array([True, True, True])) == 0.5
    assert paths.score(np.array([False, False, True])) == 0.0, "no answer is not right"
    read = ReadNeededSigns(repeats=1, seed=0, budget=None)
    assert read(question("78"), JudgedAnswers({"7": 0, "8": 1}, None)) is None
    assert read(question("7", tokens=0), JUDGED) is None
    every = read(question("...."), JUDGED)
    assert every is not None
    assert not every[:, :, :2].any()
