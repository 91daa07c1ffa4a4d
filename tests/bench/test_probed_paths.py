"""How early paths know their answer, by difficulty: with made-up probes, so that the distribution is known."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from sureenough.bench.experiments.paths import by_difficulty, thirds
from sureenough.bench.experiments.probed_paths import ProbedQuestion
from sureenough.bench.result import ExperimentResult
from sureenough.bench.source import Source
from sureenough.core.probing import ProbeReply
from sureenough.pools import PoolInfo, Question, RecordedPath, RecordedProbe, write_pool
from tests.bench.test_experiments import column, run, table, values

EVERY = 10
NEVER = 10**6


def path(tokens: int, known: int, answer: str | None = "7", early: Iterable[int] = ()) -> RecordedPath:
    """Probes give the path's answer from `known` on, and at the places `early`; else another one."""
    places = range(EVERY, tokens, EVERY)
    own = [answer if at >= known or at in early else "8" for at in places]
    probes = tuple(RecordedProbe(at, ProbeReply(text, 2)) for at, text in zip(places, own, strict=True))
    return RecordedPath(answer, [0.9] * tokens, [9.0] * tokens, probes=probes)


def pool(folder: Path, questions: list[Question]) -> Source:
    write_pool(folder / "probed.parquet", questions, PoolInfo(dataset="arith", model="tiny"), optional=["probes"])
    return Source.of(folder / "probed.parquet")


def measured(folder: Path, questions: list[Question]) -> ExperimentResult:
    return run("probes", pool(folder, questions), strategies=("sc",), repeats=1, window=8)


@pytest.fixture
def levels(tmp_path: Path) -> ExperimentResult:
    """Four paths of each level; those of level 2 are half as long."""
    easy = [path(100, known) for known in (10, 20, 30, NEVER)]
    hard = [path(50, 20), path(50, 40, early=[10, 20]), path(50, NEVER), path(50, NEVER), path(50, 10, answer=None)]
    groups = {"a": (1, easy[:2]), "b": (1, easy[2:]), "c": (2, hard)}
    return measured(tmp_path, [Question(name, "7", level, paths) for name, (level, paths) in groups.items()])


def test_quartiles_by_level(levels: ExperimentResult) -> None:
    found = table(levels, "by-difficulty")
    assert column(found, "difficulty") == ["all", "level 1", "level 2"]
    assert column(found, "paths") == [8, 4, 4], "a path without an answer is left out"
    assert column(found, "known before the end") == [5 / 8, 3 / 4, 2 / 4]
    assert column(found, "half of these after") == [0.3, 0.2, 0.4]
    first = [column(found, f"{share}% know it from token") for share in (25, 50, 75)]
    assert list(zip(*first, strict=True)) == [(20, 30, 50), (10, 20, 30), (20, 40, 50)]
    after = [column(found, f"{share}% know it after") for share in (25, 50, 75)]
    assert list(zip(*after, strict=True)) == [(0.2, 0.4, 1.0), (0.1, 0.2, 0.3), (0.4, 0.8, 1.0)]
    assert "arith: difficulty is the dataset's level" in found.notes


def test_the_figure_has_a_curve_for_each_level(levels: ExperimentResult) -> None:
    figure = next(one for one in levels.figures if one.name == "known-1")
    assert [series.name for series in figure.series] == ["level 1", "level 2"]
    for series, first in zip(figure.series, ([10, 20, 30, 100], [20, 40, 50, 50]), strict=True):
        shares = [0.25, 0.5, 0.75, 1.0]
        assert [series.x[series.y.index(share)] for share in shares] == first
        assert series.x == sorted(series.x, key=lambda value: float(value or 0))


def test_without_levels_difficulty_is_the_third_by_right_paths(tmp_path: Path) -> None:
    questions = [
        Question(f"q{right}", "7", None, [path(60, 10 * (6 - right), "7" if n < right else "9") for n in range(6)])
        for right in (1, 5, 3)
    ]
    found = table(measured(tmp_path, questions), "by-difficulty")
    assert column(found, "difficulty") == ["all", "easiest third", "middle third", "hardest third"]
    assert values(found, "50% know it from token")[1:] == [10, 30, 50]
    assert "arith: difficulty is the third of the questions by the share of right paths" in found.notes


def test_without_levels_and_gold_answers_there_are_only_all_paths(tmp_path: Path) -> None:
    result = measured(tmp_path, [Question("a", None, None, [path(60, 20)]), Question("b", None, 3, [path(60, 40)])])
    found = table(result, "by-difficulty")
    assert column(found, "difficulty") == ["all"]
    assert values(found, "25% know it from token") == [20]
    assert "arith: difficulty is not known, without gold answers" in found.notes
    assert [figure.name for figure in result.figures] == ["known"]


def test_paths_without_answers_have_no_distribution(tmp_path: Path) -> None:
    found = table(measured(tmp_path, [Question("a", "7", None, [path(60, 20, None)])]), "by-difficulty")
    assert found.rows[0][2:] == [0, *[None] * 8]


def test_thirds_have_the_same_number_of_questions() -> None:
    questions = [ProbedQuestion(None, share, []) for share in (0.1, 0.9, float("nan"), 0.5, 0.5, 0.2, 0.8, 0.5)]
    groups = by_difficulty(questions, thirds)[1]
    assert {name: [one.share for one in group] for name, group in groups.items()} == {
        "easiest third": [0.9, 0.8],
        "middle third": [0.5, 0.5, 0.5],
        "hardest third": [0.2, 0.1],
    }


def test_questions_without_a_level_are_a_group_of_their_own() -> None:
    questions = [ProbedQuestion(level, 0.5, []) for level in (2, None, 1, 2)]
    groups = by_difficulty(questions)[1]
    assert {name: len(group) for name, group in groups.items()} == {"no level": 1, "level 1": 1, "level 2": 2}
    assert list(by_difficulty(questions[:2])[1]) == ["medium"], "one level tells nothing"
