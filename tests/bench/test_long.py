"""`bench long` on pools whose truth is known: when signals separate, what gates prune, which strategies it compares."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest

from sureenough.bench.cells import replay_cells
from sureenough.bench.experiments.depth import DEPTHS, ETA, ReadDepths, ends_at
from sureenough.bench.experiments.gate_fates import SIDES, ReadGates
from sureenough.bench.experiments.long import _sure_with_gates
from sureenough.bench.judging import JudgedAnswers
from sureenough.bench.pipeline import open_pool
from sureenough.bench.recommendation import judge, sentences
from sureenough.bench.replay_units import ReplayCell
from sureenough.bench.report.page import page
from sureenough.bench.result import ExperimentResult
from sureenough.bench.settings import ReplaySettings
from sureenough.bench.source import Source
from sureenough.core.confidence.array import scan
from sureenough.core.options import RunOptions
from sureenough.pools import PoolInfo, Question, RecordedPath, write_pool
from tests.bench.making import make_pool
from tests.bench.test_experiments import column, run, table, values

A = TypeVar("A")
R = TypeVar("R")
TOKENS, WINDOW = 48, 8
JUDGED = JudgedAnswers({"7": 0, "8": 1}, {"7": True, "8": False})


def known_path(answer: str | None, right: bool, rng: np.random.Generator) -> RecordedPath:
    """All paths are alike up to their half; after it, right ones are surer."""
    conf = np.tile([9.0, 11.0], TOKENS // 2)
    conf[TOKENS // 2 :] += (2.0 if right else -2.0) + rng.normal(0.0, 0.1, TOKENS // 2)
    return RecordedPath(answer, np.full(TOKENS, 0.5), conf)


def known_pool(folder: Path, *, unanswered: int = 0) -> Source:
    """Six questions of 24 paths, of which 8 to 13 are right."""
    rng = np.random.default_rng(3)
    made = []
    for q in range(6):
        paths = [known_path("7" if i < 8 + q else "8", i < 8 + q, rng) for i in range(24 - unanswered)]
        paths += [known_path(None, True, rng) for _ in range(unanswered)]
        made.append(Question(f"q{q}", "7", None, paths))
    write_pool(folder / "known.parquet", made, PoolInfo(dataset="known", model="made", window=WINDOW))
    return Source.of(folder / "known.parquet")


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> ExperimentResult:
    return run("long", known_pool(tmp_path_factory.mktemp("known")))


def areas(result: ExperimentResult, name: str = "areas") -> dict[str, list[float]]:
    """By beginning: C_path, tail, mean and R."""
    one = table(result, name)
    signals = zip(*(values(one, title) for title in ("C_path", "tail", "mean", "R")), strict=True)
    return {str(depth): list(row) for depth, row in zip(column(one, "beginning"), signals, strict=True)}


def test_signals_that_separate_after_half_a_path_have_an_area_of_one_there_and_of_a_half_before(
    known: ExperimentResult,
) -> None:
    found = areas(known)
    for depth in ("10% of the path", "25% of the path", "50% of the path", "16 tokens"):
        assert found[depth] == [0.5] * 4, depth
    for depth in ("75% of the path", "100% of the path", "32 tokens"):
        assert found[depth][:3] == [1.0] * 3, depth
    assert "64 tokens" not in found, "paths of 48 tokens do not get so far"
    assert values(table(known, "areas"), "questions") == [6] * len(found)
    assert [one.name for one in known.tables] == ["areas", "fates", "signs", "needed", "strategies"], (
        "all paths have an answer"
    )


def test_paths_without_an_answer_are_counted_as_wrong_and_left_out(tmp_path: Path) -> None:
    result = run("long", known_pool(tmp_path, unanswered=3), strategies=("sc",))
    assert areas(result, "areas-answered")["100% of the path"][:3] == [1.0] * 3
    assert max(areas(result)["100% of the path"][:3]) < 0.95, "they are as sure as right ones"
    assert values(table(result, "areas"), "paths")[0] == 144
    assert values(table(result, "areas-answered"), "paths")[0] == 144 - 18
    assert values(table(result, "fates"), "unanswered paths")[0] > 0


def test_the_beginning_of_a_path_is_measured_like_a_path_that_ends_there() -> None:
    rng = np.random.default_rng(1)
    paths = [RecordedPath("7", rng.random(n), rng.normal(10, 2, n)) for n in (1, 5, 16, 40, 333)]
    windows = (4, 16, 64)
    ends = ends_at(paths)
    found = ReadDepths(windows).values(paths)
    for number, window in enumerate(windows):
        for depth, end in enumerate(ends):
            for i, path in enumerate(paths):
                conf = np.asarray(path.conf)[: end[i]]
                own = scan(conf, conf, window)
                expected = [own.lowest, own.tail, own.mean_conf, -own.riskiest(ETA)] if end[i] else [np.nan] * 4
                assert found[number, depth, :, i] == pytest.approx(expected, nan_ok=True), DEPTHS[depth]
    assert ends[0].tolist() == [1, 1, 2, 4, 34]
    assert ends[-11].tolist() == [0, 0, 16, 16, 16], "a path that ended before 16 tokens is not compared at 16"


def test_gates_close_on_wrong_paths_where_these_lose_confidence(known: ExperimentResult) -> None:
    fates = table(known, "fates")
    gates = [str(gate) for gate in column(fates, "gate of")]
    assert gates == ["ddc", "ddc:per=path", "deepconf-low", "deepconf-high"]
    strict = gates.index("deepconf-low")
    assert values(fates, "wrong: drop")[strict] == 1.0
    assert values(fates, "right paths")[0] + values(fates, "wrong paths")[0] == 6 * 8 * 2, "16 of 24 warm up, 2 orders"
    after = column(fates, "wrong: pruned after")[strict]
    assert isinstance(after, float)
    assert 0.5 < after < 0.7
    running = next(one for one in known.figures if one.name == f"fates-1-{strict + 1}")
    wrong = next(one for one in running.series if one.name.startswith("wrong"))
    assert [wrong.y[0], wrong.y[10], wrong.y[-1]] == [1.0, 1.0, 0.0], "at 0, 50 and 100%"


def test_the_parts_of_a_path_in_which_gates_close_add_up() -> None:
    rng = np.random.default_rng(2)
    paths = [known_path(answer, answer == "7", rng) for answer in ["7", "8", None, "8"] * 8]
    counts = ReadGates(["deepconf-low", "ddc:warmup=8"], [8, 16], 2, 0, None)(Question("q", "7", None, paths), JUDGED)
    for gate, size in counts.tokens:
        share = counts.share(gate, size, SIDES)
        assert share is not None
        assert counts.running(gate, size, SIDES, 100) == pytest.approx(1 - share)
        assert counts.number(gate, size, SIDES) == 2 * (24 if gate.startswith("ddc") else 16)
    assert counts.share("esc", 8, SIDES) is None


def test_strategies_are_compared_with_sc_and_the_choice_is_within_a_point(known: ExperimentResult) -> None:
    compared = table(known, "strategies")
    names = [str(name) for name in column(compared, "strategy")]
    assert names[:6] == ["sc", "ac", "sure", "sure:weigh=count", "ddc", "ddc:per=path"]
    assert {"ddc-no-depth", "deepconf-high", "sure after 8 paths", "sure with the gate of ddc:per=path"} <= set(names)
    assert column(compared, "window")[:3] == [None, None, WINDOW]
    assert any("without probes" in note for note in known.notes)
    assert any("windows of 64, 128, 256, 512, 1024 tokens are left out" in note for note in known.notes)
    frontier = next(one for one in known.figures if one.name == "frontier-1")
    assert sum(any(one.marked) for one in frontier.series) == len(
        [one for one in column(compared, "not beaten") if one]
    )
    advised = known.recommendations[0]
    assert advised.margin == 0.01
    assert judge(advised).strategy in ("sc", *names)
    assert sentences(advised)
    assert "Strategy(" not in "".join(compared.notes)


def test_probes_windows_and_strategies_of_the_caller(tmp_path: Path) -> None:
    source = make_pool(tmp_path)
    probed = table(run("long", source), "strategies")
    names = [name for name in map(str, column(probed, "strategy")) if "+probe" in name]
    assert names == [f"{name}+probe:every=8,agree={n}" for name in ("sc", "ac", "ddc", "sure") for n in (3, 8)]
    few = table(run("long", source, strategies=("ddc",), sweep=(16.0, 8.0)), "strategies")
    assert list(zip(column(few, "strategy"), column(few, "window"), strict=True)) == [
        ("sc", None), ("ddc", 8), ("ddc", 16),
    ]  # fmt: skip


def test_a_pool_without_gold_answers_has_no_areas_and_is_compared_by_agreement(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    made = [
        Question(f"q{q}", None, None, [known_path(str(q % 2 + i % 2), True, rng) for i in range(8)]) for q in range(3)
    ]
    write_pool(tmp_path / "plain.parquet", made, PoolInfo(window=WINDOW))
    result = run("long", Source.of(tmp_path / "plain.parquet"), repeats=1)
    assert not table(result, "areas").rows
    assert not table(result, "fates").rows
    assert result.recommendations[0].basis == "agreement"
    assert {figure.name for figure in result.figures} <= {"frontier-1", "differences-1"}
    assert "What depth is worth" in page([result], "run")


class InTurn:
    """Two workers of the protocol, in this process."""

    jobs = 2

    def run(self, function: Callable[[A], R], arguments: Sequence[A]) -> Iterator[tuple[int, R]]:
        yield from ((number, function(argument)) for number, argument in enumerate(arguments))


def test_cells_that_learn_and_need_signals_are_the_same_with_several_workers(tmp_path: Path) -> None:
    source = make_pool(tmp_path)
    options = RunOptions(window=8)
    gates = _sure_with_gates(open_pool(source, ReplaySettings(), None), None)[:3]
    strategies: list[Any] = ["sc", "sure", "sure+probe:every=8", *gates]
    cells = [ReplayCell(str(n), strategy, options) for n, strategy in enumerate(strategies)]
    one, two = (
        replay_cells([source], lambda pool: cells, ReplaySettings(repeats=3, jobs=1), workers=workers)[0]
        for workers in (None, InTurn())
    )
    assert [line.row for line in one.results] == [line.row for line in two.results]
    assert [line.runs.answers for line in one.results] == [line.runs.answers for line in two.results]
    assert [line.states for line in one.results] == [line.states for line in two.results]
    assert one.results[-1].row.pruned > 0


def test_what_is_chosen_on_the_first_pool_is_shown_on_the_others(known: ExperimentResult, tmp_path: Path) -> None:
    first, second = make_pool(tmp_path), known_pool(tmp_path)
    both = run("long", first, second)
    one = table(both, "held-out")
    rows = list(zip(column(one, "dataset"), column(one, "strategy"), column(one, "chosen as"), strict=True))
    names = list(dict.fromkeys(dataset for dataset, _, _ in rows))
    assert names == [first.dataset, "known"]
    shown = {str(name): str(reasons) for dataset, name, reasons in rows if dataset == first.dataset}
    assert shown["sc"] == "compared with"
    assert any("best of all" in reasons for reasons in shown.values())
    assert {name for dataset, name, _ in rows if dataset == "known"} <= shown.keys()
    assert not [other for other in known.tables if other.name == "held-out"], "one pool has no other"
    assert [advised.dataset for advised in both.recommendations] == [first.dataset], "nothing is chosen on the others"
