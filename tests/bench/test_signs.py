"""Made-up signs of known quality: what the table of `bench long` says on questions whose outcome can be calculated."""

from __future__ import annotations

import numpy as np
import pytest

from sureenough.bench.experiments.depth import ABSOLUTE, SIGNALS
from sureenough.bench.experiments.signs import AREAS, KNOWN, ReadSigns, distance, paths_of
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
    found = ReadSigns(8, repeats=5, seed=0, budget=None)(asked, JUDGED)
    assert found is not None
    perfect, useless = found.made_up[AREAS.index(1.0)], found.made_up[AREAS.index(0.5)]
    assert (perfect[:, 0] == 1.0).all()
    assert (perfect[:, 1] <= 0.4).all()
    assert (useless[:, 0] <= 0.4).all()


def test_tokens_are_those_of_the_paths_that_go_on_and_of_the_beginnings_of_the_others() -> None:
    found = ReadSigns(8, repeats=2, seed=0, budget=None)(question("7788" * 8), JUDGED)
    assert found is not None
    expected = [0.5 + 0.5 * part for part in KNOWN]
    assert found.made_up[:, :, 2] == pytest.approx(np.tile(expected, (len(AREAS), 1)))


def test_paths_that_ended_before_a_sign_is_known_vote_and_half_of_the_others_ends() -> None:
    order = [path("7", 10)] * 9 + [path("8", 1_000)] * 4
    paths = paths_of(order, JUDGED, JUDGED.right or {})
    sign = np.array([-9.0] * 9 + [9.0, 8.0, 7.0, np.nan])  # the last one has no sign, and so goes on
    score, without, share = paths.ended_by(sign, 200)
    assert (score, without) == (1.0, 1.0)
    assert share == pytest.approx((90 + 2 * 200 + 2 * 1_000) / 4_090), "half of three is two: the worst of the long"


def test_real_signs_end_the_paths_that_they_are_lowest_for() -> None:
    surer = [RecordedPath("7", np.full(100, 0.5), np.full(100, 12.0)) for _ in range(8)]
    asked = Question("q", "7", None, [*surer, *(path("8") for _ in range(10))])
    found = ReadSigns(8, repeats=3, seed=0, budget=None)(asked, JUDGED)
    assert found is not None
    reached = [i for i, depth in enumerate(ABSOLUTE) if depth.tokens < 100]
    for signal in ("C_path", "tail", "mean"):
        least_sure, surest = found.real[reached, SIGNALS.index(signal)].swapaxes(0, 1)
        assert (least_sure[:, 0] == 1.0).all(), "nine of the ten wrong paths end"
        assert (least_sure[:, 1] < 1.0).any()
        assert (surest[:, 0] == 0.0).all(), "the right ones end, and one wrong"
        assert (surest[:, 1:] == least_sure[:, 1:]).all(), "as many tokens"
    assert np.isnan(found.real[len(reached) :]).all(), "no path got so far"


def test_ties_are_broken_by_chance_and_questions_that_say_nothing_are_left_out() -> None:
    paths = paths_of([path("7"), path("8"), path(None)], JUDGED, JUDGED.right or {})
    assert paths.score(np.array([True, True, True])) == 0.5
    assert paths.score(np.array([False, False, True])) == 0.0, "no answer is not right"
    read = ReadSigns(8, repeats=1, seed=0, budget=None)
    assert read(question("78"), JudgedAnswers({"7": 0, "8": 1}, None)) is None
    assert read(question("7", tokens=0), JUDGED) is None
    every = read(question("...."), JUDGED)
    assert every is not None
    assert not every.made_up[:, :, :2].any()


def test_a_budget_without_a_token_is_left_out() -> None:
    asked = Question("q", "7", None, [*(path(None, 0) for _ in range(15)), path("7")])
    found = ReadSigns(8, repeats=20, seed=0, budget=2)(asked, JUDGED)
    assert found is not None, "some of the twenty orders have the path with tokens among their first two"
    assert (found.made_up[:, :, :2] == 1.0).all()
    assert ReadSigns(8, repeats=20, seed=0, budget=0)(asked, JUDGED) is None
