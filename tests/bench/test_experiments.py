"""Every named experiment, on a small pool of known paths: it runs, and its numbers are what they say they are."""

from __future__ import annotations

from dataclasses import replace
from math import inf, nan, sqrt
from pathlib import Path
from typing import Any

import pytest

import sureenough as se
from sureenough.bench import paper
from sureenough.bench.live import LiveRun
from sureenough.bench.paper import EXPERIMENTS, experiment
from sureenough.bench.paper.live import live_settings
from sureenough.bench.paper.shared import changed
from sureenough.bench.pipeline import Source
from sureenough.bench.result import ExperimentResult, read
from sureenough.bench.score import StrategyRuns
from sureenough.bench.tables import Cell, Measure, Table
from sureenough.core.stop_rules import exceeds_share
from sureenough.data import BUILTIN_POOL
from sureenough.errors import UsageError
from tests.bench.making import inputs, make_pool, pool_of


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Source:
    return make_pool(tmp_path_factory.mktemp("pools"), questions=5, dataset="arith", model="tiny", name="other.parquet")


def run(name: str, *sources: Source, live: bool = False, **settings: Any) -> ExperimentResult:
    return experiment(name).run(inputs(*sources, live=live, **({"repeats": 2} | settings)))


def table(result: ExperimentResult, name: str) -> Table:
    return next(one for one in result.tables if one.name == name)


def column(one: Table, title: str) -> list[Cell]:
    place = [c.title for c in one.columns].index(title)
    return [row[place] for row in one.rows]


def values(one: Table, title: str) -> list[float]:
    cells = [cell.value if isinstance(cell, Measure) else cell for cell in column(one, title)]
    return [float(cell) for cell in cells if cell is not None]


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_runs_and_says_how_it_was_made(
    name: str, source: Source, other: Source, tmp_path: Path
) -> None:
    result = run(name, source, other, live=EXPERIMENTS[name].live != "no")
    assert result.name == EXPERIMENTS[name].name == name
    assert result.tables
    assert all(one.rows and all(len(row) == len(one.columns) for row in one.rows) for one in result.tables)
    for one in result.tables:
        settings = [note for note in one.notes if note.startswith("Settings: ")]
        assert len(settings) == 1, one.name
        assert all(f"{word} " in settings[0] for word in ("window", "budget", "repeats", "weights"))
    drawn = [y for figure in result.figures for series in figure.series for y in series.y]
    assert not result.figures or any(y is not None for y in drawn)
    made = result.provenance
    assert made.command == f"sureenough bench {name}"
    assert set(made.versions) == {"sureenough", "python", "numpy", "scipy"}
    assert made.settings == {"repeats": 2}
    if name != "search":  # these replay nothing
        assert [pool.sha256 for pool in made.pools] == [source.digest(), other.digest()]
        assert [pool.questions for pool in made.pools] == [8, 5]
    result.save(tmp_path / "r.json")
    assert read(tmp_path / "r.json").tables == result.tables
    assert len({one.name for one in result.tables}) == len(result.tables)
    assert len({one.name for one in result.figures}) == len(result.figures)


def test_main_is_the_paired_comparison() -> None:
    result = run("main", Source.of(BUILTIN_POOL), strategies=("sc", "ac", "ddc"))
    rows = se.compare(BUILTIN_POOL, ["sc", "ac", "ddc"], repeats=2).rows
    main = table(result, "main")
    assert values(main, "accuracy") == [row.accuracy for row in rows]
    assert values(main, "vs first") == [row.difference for row in rows]
    assert values(main, "tokens") == [row.tokens for row in rows]
    assert values(main, "tokens, all questions") == pytest.approx([43 * row.tokens for row in rows])
    assert column(main, "accuracy")[2] == Measure(rows[2].accuracy, *rows[2].interval)
    assert any("fewer than 512 recorded paths" in note for note in result.notes)


def test_questions_that_changed_sides_add_up_to_the_difference() -> None:
    result = run("main", Source.of(BUILTIN_POOL), strategies=("sc", "ddc", "sure"), repeats=1)
    main = table(result, "main")
    for won, lost, difference in zip(values(main, "won"), values(main, "lost"), values(main, "vs first"), strict=True):
        assert (won - lost) / 50 == pytest.approx(difference)
    assert values(main, "won")[0] == values(main, "lost")[0] == 0


def test_a_question_right_in_half_of_its_repeats_is_neither_won_nor_lost() -> None:
    first, runs = StrategyRuns(), StrategyRuns()
    first.right = [0.5, 0.5, 1.0, 0.0, 0.25, 0.75, nan]
    runs.right = [1.0, 0.0, 0.5, 0.5, 0.75, 0.25, 1.0]
    assert changed(runs, first) == (1, 1)


def test_settings_name_the_budget_that_was_used_and_the_scale_of_the_weights(source: Source) -> None:
    main = table(run("main", source, strategies=("sc", "ddc", "ddc:weight=mean", "sure")), "main")
    assert main.notes[-1] == (
        "Settings: window 8; budget 512 paths (24 recorded, all used); "
        "repeats 2 (orders of the recorded paths, seed 0); "
        "weights 1 per path (sc), C_path raw (ddc), C_path mean (ddc:weight=mean), effective votes (sure)"
    )


def test_pooled_differences_are_those_of_all_questions(source: Source, tmp_path: Path) -> None:
    """The second pool repeats the questions q0 to q3 of the first, so they count once."""
    again = make_pool(tmp_path, questions=4, dataset="aime24", name="more.parquet")
    result = run("main", source, again, strategies=("sc", "ac", "ddc"))
    pooled = table(result, "pooled")
    assert column(pooled, "dataset") == ["aime25", "aime24", "all together"] * 2
    assert column(pooled, "strategy") == ["ac"] * 3 + ["ddc"] * 3
    assert values(pooled, "questions") == [8, 4, 8] * 2
    assert column(pooled, "difference")[2] == column(pooled, "difference")[0]
    assert column(pooled, "difference")[3] == column(table(result, "main"), "vs first")[2]


def test_what_a_sample_could_detect_is_known_even_if_nothing_changed(tmp_path: Path) -> None:
    pool = Source.of(pool_of(tmp_path, *["7" * 24] * 98))
    pooled = table(run("main", pool, strategies=("sc", "ac")), "pooled")
    (difference,) = column(pooled, "difference")
    assert isinstance(difference, Measure)
    assert (difference.low or 0.0) < 0.0 < (difference.high or 0.0)
    assert values(pooled, "could detect") == [pytest.approx(100 * 2.8 * sqrt(2 / 100) / sqrt(100))]


def test_rows_are_averaged_over_the_datasets_of_a_model(source: Source, other: Source) -> None:
    small = make_pool(source.pool.parent, questions=4, dataset="aime24", name="more.parquet")
    main = table(run("main", source, small, other, strategies=("sc", "ddc")), "main")
    assert column(main, "dataset")[-2:] == ["Avg.", "Avg."]
    assert column(main, "dataset").count("Avg.") == 2, "the other model has one dataset"
    for title in ("accuracy", "tokens, all questions"):
        sc, ddc, sc_small, ddc_small, _, _, *means = values(main, title)
        assert means == pytest.approx([(sc + sc_small) / 2, (ddc + ddc_small) / 2])


def test_the_papers_numbers_stand_beside_ours_only_for_its_models(source: Source, other: Source) -> None:
    printed = {c.title: c.paper for c in table(run("main", source), "main").columns if c.paper}
    assert printed == {"accuracy in the paper": "table 1", "tokens in the paper": "table 1"}
    main = table(run("main", source, strategies=("sc", "ddc", "sure")), "main")
    assert column(main, "accuracy in the paper") == [pytest.approx(0.665), pytest.approx(0.821), None]
    assert column(main, "tokens in the paper") == [pytest.approx(41.0e7), pytest.approx(1.5e7), None]
    assert not [c for c in table(run("main", other), "main").columns if c.paper]


@pytest.mark.parametrize(
    ("number", "model", "dataset", "setting", "measure", "value"),
    [
        (1, "Qwen3-1.7B", "GPQA-diamond", "sc", "tokens", 186.4),
        (1, "Qwen/Qwen3-32B", "AIME24", "ddc", "accuracy", 93.3),
        (1, "Qwen3-8B", "Avg.", "ac", "tokens", 13.1),
        (2, "Qwen3-4B", "aime25", "phi+sc", "tokens", 43.3),
        (3, "DeepSeek-R1-0528-Qwen3-8B", "MATH-500", "ddc-no-trend", "accuracy", 93.6),
        (4, "Qwen3-4B", "math500", "ddc", "width", 62.0),
        (5, "Qwen3-32B", "aime25", "deepconf-low", "seconds", 24912.11),
        (6, "Qwen3-8B", "amc23", "ddc:warmup=8", "init tokens", 0.29),
        (7, "Qwen3-4B", "aime25", "window=512", "accuracy", 76.7),
        (1, "Qwen3-4B", "gsm8k", "sc", "tokens", None),
    ],
)
def test_the_papers_tables(
    number: int, model: str, dataset: str, setting: str, measure: str, value: float | None
) -> None:
    assert paper.value(number, model, dataset, setting, measure) == value


def test_all_of_the_papers_tables_are_there() -> None:
    counts = [sum(one.table == number for one in paper.printed()) for number in range(1, 8)]
    assert counts == [300, 24, 40, 8, 120, 126, 108]


def test_ablations_are_against_the_whole(source: Source) -> None:
    ablation = table(run("ablation", source), "ablation")
    assert column(ablation, "strategy")[0] == "ddc"
    assert values(ablation, "vs first")[0] == 0
    assert values(ablation, "pruned: risk")[3] == values(ablation, "pruned: risk")[4] == 0


def test_width_counts_wrong_answers_that_passed_tau(tmp_path: Path) -> None:
    """Three questions: right, wrong with 20 votes of 24, wrong with 13 of 24."""
    pool = Source.of(pool_of(tmp_path, *("8" * wrong + "7" * (24 - wrong) for wrong in (0, 20, 13))))
    width = table(run("width", pool, strategies=("sc", "ac")), "width")
    assert values(width, "width")[0] == 24 > values(width, "width")[1]
    assert values(width, "wrong")[0] == pytest.approx(2 / 3)
    assert exceeds_share(21, 5, 0.5) > 0.95 > exceeds_share(14, 12, 0.5)
    assert values(width, "confidently wrong")[0] == pytest.approx(1 / 3)
    assert values(width, "tokens per confident error")[0] == 24 * 9
    assert values(width, "share of all tokens")[0] == pytest.approx(1 / 3)


def test_init_final_and_total_tokens_add_up(source: Source) -> None:
    sizes = table(run("init-size", source, sweep=(4.0, 8.0, 16.0)), "init-size")
    assert column(sizes, "init size") == [4, 8, 16]
    parts = zip(values(sizes, "init tokens"), values(sizes, "final tokens"), values(sizes, "tokens"), strict=True)
    assert all(init + final == pytest.approx(total) for init, final, total in parts)
    assert values(sizes, "init tokens") == sorted(values(sizes, "init tokens"))
    assert column(table(run("init-size", source), "init-size"), "init tokens in the paper")[1] == pytest.approx(0.75e7)


def test_windows_are_scaled_to_the_pool_or_as_told(source: Source) -> None:
    assert column(table(run("window", source), "window"), "window") == [2, 4, 8, 16]
    far = run("window", source, sweep=(8.0, 2048.0))
    assert column(table(far, "window"), "window") == [8, 2048]
    assert any("no path was watched" in note for note in far.notes)
    assert column(table(far, "window"), "accuracy in the paper")[1] == pytest.approx(0.821)


def test_a_tighter_fence_prunes_more(source: Source) -> None:
    fence = table(run("fence", source, sweep=(50.0, 99.0)), "fence")
    assert column(fence, "fence") == ["tukey", "p50", "p99", "no trend"]
    risky = values(fence, "pruned: risk")
    assert risky[1] >= risky[2] >= risky[3] == 0


def test_fences_and_sizes_have_the_average_over_datasets(source: Source) -> None:
    other = make_pool(source.pool.parent, questions=5, dataset="aime24", name="other.parquet")
    for name, label in (("fence", "fence"), ("init-size", "init size")):
        result = run(name, source, other)
        one, cells = table(result, name), len(column(table(run(name, source), name), label))
        assert column(one, "dataset")[2 * cells :] == ["Avg."] * cells
        assert column(one, label)[2 * cells :] == column(one, label)[:cells]
        accuracy = values(one, "accuracy")
        for i in range(cells):
            assert accuracy[2 * cells + i] == pytest.approx((accuracy[i] + accuracy[cells + i]) / 2)
        assert column(one, "won")[2 * cells :] == [None] * cells
        assert [series.name for series in result.figures[0].series][-1] == "mean"


def test_scaling_keeps_to_budgets_and_caps(source: Source, other: Source) -> None:
    result = run("scaling", source, other, strategies=("sc", "ddc"))
    budgets, caps = table(result, "budgets"), table(result, "caps")
    pairs = list(zip(column(budgets, "strategy"), column(budgets, "budget"), strict=True))
    assert [budget for name, budget in pairs if name == "sc"][:6] == [1, 2, 4, 8, 16, 24]
    assert all(
        width <= budget for width, budget in zip(values(budgets, "width"), values(budgets, "budget"), strict=True)
    )
    assert all(spent <= cap for spent, cap in zip(values(caps, "tokens"), values(caps, "cap"), strict=True))
    assert {"tokens-mean", "voting-mean", "caps-mean", "tokens-1", "voting-2", "caps-2"} <= {
        f.name for f in result.figures
    }
    (tokens,) = [f for f in result.figures if f.name == "voting-tokens-1"]
    sc = [
        spent
        for name, spent in zip(column(budgets, "strategy"), values(budgets, "tokens"), strict=True)
        if name == "sc"
    ]
    assert tokens.series[0].x == [1, 2, 4, 8, 16, 24]
    assert tokens.series[0].y == sc[:6]
    (mean,) = [f for f in result.figures if f.name == "voting-mean"]
    parts = [next(f for f in result.figures if f.name == name) for name in ("voting-1", "voting-2")]
    for i, y in enumerate(mean.series[0].y):
        assert y == pytest.approx(sum(part.series[0].y[i] or 0 for part in parts) / 2)


def test_live_rows_have_tables_of_their_own(source: Source) -> None:
    result = run("main", source, live=True)
    assert [one.live for one in result.tables] == [False, False, False, True]
    live = result.tables[-1]
    assert column(live, "strategy") == ["deepconf-low", "ddc"]
    assert values(live, "accuracy") == pytest.approx([2 / 3, 1.0])
    assert (values(live, "won"), values(live, "lost")) == ([0, 1], [0, 0])
    assert values(live, "total") == pytest.approx([2.5, 2.5])
    assert [one.live for one in run("main", live=True).tables] == [True]


@pytest.mark.parametrize(
    ("outcomes", "strategy", "note"),
    [
        ([{"window": 16, "paths": 64}], "ddc", "window 16; budget 64 paths; repeats 1; weights C_path raw"),
        (
            [{"window": 16, "paths": 2}, {"window": 64, "paths": 64}],
            "sc",
            "window 16 to 64; budget 2 to 64 paths; repeats 1; weights 1 per path",
        ),
        (
            [{"window": 32, "window_paths": 3, "paths": 64}],
            "sure",
            "window chosen live (32); budget 64 paths; repeats 1; weights effective votes",
        ),
        ([{}], "theirs", "window chosen live; budget of the run; repeats 1; weights by strategy"),
    ],
)
def test_live_tables_say_with_which_settings_they_were_made(
    outcomes: list[dict[str, int]], strategy: str, note: str
) -> None:
    """A run may have neither window nor budget, and a strategy may be one of another package."""
    runs = [LiveRun("sums", "tiny", strategy, f"q{q}", 0, True, 0.0, 1.0, out) for q, out in enumerate(outcomes)]
    assert live_settings(runs) == f"Settings: {note}"
    more = [replace(run, strategy="ac", repeat=repeat) for run in runs for repeat in range(3)]
    assert "; repeats 1 to 3; " in live_settings(runs + more)
    assert "; repeats 3; " in live_settings(more)


def test_search_is_measured_live_beside_the_papers_numbers(source: Source) -> None:
    result = run("search", live=True)
    measured, printed = table(result, "search"), table(result, "paper")
    assert measured.live
    assert not printed.live
    assert all(tokens > 0 for tokens in values(measured, "tokens"))
    assert {c.paper for c in printed.columns} == {"", "table 2"}
    assert len(printed.rows) == 12
    with pytest.raises(UsageError, match="give --dataset"):
        run("search", source)


def test_latency_has_seconds_from_live_runs_and_steps_from_pools(source: Source) -> None:
    live = table(run("latency", live=True), "latency-live")
    assert values(live, "init") == pytest.approx([2.0, 2.0])
    assert values(live, "final") == pytest.approx([0.5, 0.5])
    assert column(live, "seconds in the paper") == [14577.12, 1007.03]
    result = run("latency", source)
    assert sum(" learned " in note for note in result.notes) == 1, "of the strategy, not of a warm-up that it has not"
    steps = table(result, "steps")
    parts = zip(values(steps, "init steps"), values(steps, "final steps"), values(steps, "steps"), strict=True)
    assert all(init + final == pytest.approx(total) and final >= 0 for init, final, total in parts)
    assert values(steps, "init steps")[0] == 0 < values(steps, "init steps")[3]
    with pytest.raises(UsageError, match="--live"):
        run("latency")


def test_bad_strategies_sweeps_and_names_are_refused(source: Source) -> None:
    with pytest.raises(UsageError, match="did you mean 'ddc'"):
        run("main", source, strategies=("dcc",))
    with pytest.raises(UsageError, match="ddc warms up with 16 paths, the budget is 8"):
        run("main", source, strategies=("sc", "ddc"), paths=8)
    for size in (0.0, 2.5, nan, inf):
        with pytest.raises(UsageError, match=f"an init size of {size:g} is not possible"):
            run("init-size", source, sweep=(8.0, size))
    with pytest.raises(UsageError, match="known: main, ablation"):
        experiment("mian")
    with pytest.raises(UsageError, match="name a pool"):
        run("main")


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_14_22_inputs_without_effect_are_refused(name: str, source: Source) -> None:
    reads = EXPERIMENTS[name].reads
    if "sweep" not in reads:
        with pytest.raises(UsageError, match=f"{name} has no sweep of its own; to sweep an option"):
            run(name, source, sweep=(8.0,))
    if "strategies" not in reads:
        with pytest.raises(UsageError, match=f"{name} has strategies of its own; leave -s out"):
            run(name, source, strategies=("sc",))
