"""Paired comparison: same orders for all, intervals over questions, and what the table says."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pytest

import sureenough as se
from sureenough.answers import grade
from sureenough.bench.comparison import to_csv, to_json
from sureenough.bench.score import StrategyRuns, rows
from sureenough.core.confidence import Windows
from sureenough.core.pruning import Gate
from sureenough.data import BUILTIN_POOL
from sureenough.errors import UsageError
from sureenough.pools import PoolInfo, Question, RecordedPath, write_pool
from tests.bench.making import pool_of


@pytest.fixture(scope="module")
def table() -> se.Comparison:
    return se.compare(BUILTIN_POOL, ["sc", "ac", "ddc", "ddc-no-trend"], paths=32, repeats=2, seed=3)


def tiny_pool(folder: Path, sizes: list[int], gold: str | None = "a") -> Path:
    return pool_of(folder, *(("ab" * n)[:n] for n in sizes), gold=gold, tokens=4, window=2)


def test_pools_and_comparisons_are_tables_in_a_notebook(tmp_path: Path) -> None:
    pool = se.Pool(pool_of(tmp_path, ["a"] * 8, gold="a", tokens=4, model="<i>", window=2))
    assert "<tr><th>Model</th><td>&lt;i&gt;</td></tr><tr><th>Paths</th><td>8</td></tr>" in pool._repr_html_()
    html = se.compare(pool, [se.Strategy("<b>"), "ac"])._repr_html_()
    assert html.startswith('<table><thead><tr><th scope="col" class="text">strategy</th>')
    assert '<td class="text" title="&lt;b&gt;">&lt;b&gt;</td><td class="number" data-v="1.0">100.0 <small>[' in html


def test_a_pool_without_signals_is_compared_under_the_strategies_that_need_none(tmp_path: Path) -> None:
    answers = ["7"] * 9 + ["8"] * 4
    made = [Question(f"q{n}", "7", None, [RecordedPath(a, tokens=9) for a in answers]) for n in range(3)]
    write_pool(tmp_path / "p.parquet", made, PoolInfo())
    result = se.compare(tmp_path / "p.parquet")
    assert [row.strategy for row in result] == ["sc", "ac", "esc", "sure"]
    assert "left out, since the pool was recorded without confidence: deepconf-low, deepconf-high, ddc\n" in str(result)
    assert "sure: these paths were recorded without confidence, so all votes weigh 1 (15 of 15 runs)" in str(result)
    assert "learned nothing" not in str(result)
    with pytest.raises(UsageError, match="deepconf-low prunes paths by the confidence of their tokens"):
        se.compare(tmp_path / "p.parquet", ["sc", "deepconf-low:warmup=4"])


def test_a_row_a_strategy(table: se.Comparison) -> None:
    assert [row.strategy for row in table] == ["sc", "ac", "ddc", "ddc-no-trend"]
    assert len(table) == 4
    sc = table.rows[0]
    assert (sc.width, sc.saving, sc.difference, sc.agreement) == (32.0, 1.0, 0.0, 1.0)
    assert all(0 < row.agreement_low < row.agreement <= 1 for row in table)
    assert all(0 <= row.interval.low <= row.accuracy <= row.interval.high <= 1 for row in table)
    assert all(row.saving >= 1 and row.tokens <= sc.tokens for row in table)
    assert all(sum(row.buckets.values()) == pytest.approx(row.tokens) for row in table)
    assert all(sum(row.reasons.values()) == pytest.approx(1) for row in table)
    assert (table.options.window, table.options.paths, table.recorded, table.settings.repeats) == (64, 32, 64, 2)


def test_one_row_equals_single_replays(real_questions: list[Question]) -> None:
    """The table is nothing but means of `se.replay`, on the orders that the seed draws."""
    tokens, right = [], []
    for question in real_questions:
        rng = np.random.default_rng((0, 0, crc32(question.id.encode())))
        order = [question.paths[i] for i in rng.permutation(64)]
        out = se.replay(order, "ddc", window=64)
        tokens.append(out.tokens.total)
        right.append(grade(question.gold or "", out.answer))
    row = se.compare(BUILTIN_POOL, ["ddc"], repeats=1, seed=0).rows[0]
    assert row.tokens == pytest.approx(np.mean(tokens))
    assert row.accuracy == pytest.approx(np.mean(right))


def test_the_seed_draws_the_orders_whatever_the_other_strategies(table: se.Comparison) -> None:
    options: Any = {"paths": 32, "repeats": 2}
    assert se.compare(BUILTIN_POOL, ["sc", "ac", "ddc", "ddc-no-trend"], seed=3, **options).rows == table.rows
    assert se.compare(BUILTIN_POOL, ["ac"], seed=4, **options).rows[0].tokens != table.rows[1].tokens
    alone = se.compare(BUILTIN_POOL, ["ddc"], seed=3, **options).rows[0]
    assert (alone.tokens, alone.accuracy) == (table.rows[2].tokens, table.rows[2].accuracy)


def test_intervals_resample_questions_and_pair_strategies() -> None:
    rng = np.random.default_rng(0)
    base = rng.random(200) < 0.5
    first, better = StrategyRuns(), StrategyRuns()
    first.right, better.right = base.astype(float).tolist(), (base | (rng.random(200) < 0.1)).astype(float).tolist()
    for one_strategy in (first, better):
        one_strategy.reasons["settled"] = 200
    one, two = rows(["first", "better"], [first, better], seed=0)
    assert one.interval.high - one.interval.low == pytest.approx(4 * (0.25 / 200) ** 0.5, rel=0.1)
    assert two.difference_interval.low > 0, "paired: a gain on some questions and a loss on none is certain"
    assert two.interval.low < one.interval.high, "unpaired intervals overlap all the same"


def test_repeats_of_a_question_are_not_counted_as_new_questions() -> None:
    few = se.compare(BUILTIN_POOL, ["sc"], paths=8, repeats=1).rows[0]
    many = se.compare(BUILTIN_POOL, ["sc"], paths=8, repeats=8).rows[0]
    width = few.interval.high - few.interval.low
    assert many.interval.high - many.interval.low > 0.7 * width


def test_the_table_says_what_a_reader_should_know(tmp_path: Path) -> None:
    result = se.compare(tiny_pool(tmp_path, [16, 12, 20]), ["ddc"], paths=20)
    assert "2 questions have fewer than 20 recorded paths (20 at most); all were used" in result.notes
    assert any("1 questions have fewer paths than a warm-up" in note for note in result.notes)
    wide = se.compare(tiny_pool(tmp_path, [16]), ["ddc"], window=999)
    said = "the longest has 4 tokens, the window 999; try window=1"
    assert any(said in line and "(5 of 5 runs)" in line for line in wide.table().notes)
    assert any("C_path (raw): ddc" in line for line in wide.table().notes)
    compared = se.compare(tiny_pool(tmp_path, [16]), ["sc", "ac"])
    assert any("one imagined question won and one lost" in line for line in compared.table().notes)


def test_a_pool_without_gold_answers_has_no_accuracy(tmp_path: Path) -> None:
    row = se.compare(tiny_pool(tmp_path, [6, 6], gold=None), ["sc", "ac"]).rows[1]
    assert row.accuracy != row.accuracy
    assert (row.graded, row.questions) == (0, 2)
    assert row.to_json()["accuracy"] is None
    assert "–" in str(se.compare(tiny_pool(tmp_path, [6], gold=None), ["sc"]))


def test_a_cap_on_tokens_holds_for_every_question() -> None:
    row = se.compare(BUILTIN_POOL, ["sc"], max_tokens=1000).rows[0]
    assert row.tokens == 1000
    assert row.reasons == {"max_tokens": 1.0}
    assert row.saving == pytest.approx(1.0)


def test_csv_and_json_hold_what_the_rows_hold(table: se.Comparison) -> None:
    lines = list(csv.DictReader(io.StringIO(to_csv([table, table]))))
    assert len(lines) == 8
    assert float(lines[2]["tokens"]) == table.rows[2].tokens
    assert float(lines[1]["interval_low"]) == table.rows[1].interval.low
    data = to_json([table])["pools"][0]
    assert [row["strategy"] for row in data["rows"]] == [row.strategy for row in table]
    assert "\n'=x" in to_csv([replace(table, pool="=x")]), "cells cannot start formulas"


def test_a_table_says_what_it_was_made_with() -> None:
    made = {"max_tokens": 900, "equal": "string", "hurry": 0.5, "parallel": 8}
    result = se.compare(BUILTIN_POOL, ["sure"], paths=200, **made)  # type: ignore[arg-type]
    assert made.items() <= to_json([result])["pools"][0].items()
    (line,) = csv.DictReader(io.StringIO(to_csv([result])))
    assert {name: line[name] for name in made} == {name: str(value) for name, value in made.items()}
    assert "strings are equal" in line["notes"]
    assert "200 paths (64 recorded)" in str(result)
    assert "at most 900 tokens per question" in str(result)
    assert "the cap on tokens cut runs of sure" in str(result)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"repeats": 0}, "repeats is 0"),
        ({"paths": 15}, "ddc warms up with 16 paths, the budget is 15"),
        ({"hurry": -1}, "hurry is -1"),
        ({"strategies": []}, "at least one"),
    ],
)
def test_what_cannot_be(change: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        se.compare(BUILTIN_POOL, **{"strategies": ["sc", "ddc"]} | change)


def test_one_strategy_need_not_be_in_a_list() -> None:
    assert [row.strategy for row in se.compare(BUILTIN_POOL, "ac:tau=0.9", repeats=np.int64(1))] == ["ac:tau=0.9"]  # type: ignore[arg-type]


def test_a_strategy_made_of_parts_that_cannot_be_hashed() -> None:
    @dataclass
    class Half:
        share: float = 0.5

        def __call__(self, paths: list[Windows]) -> Gate:
            return Gate(drop=self.share * min(path.lowest for path in paths))

    mine = se.Strategy("mine", warmup=4, calibrate=Half())  # type: ignore[arg-type]
    assert se.compare(BUILTIN_POOL, [mine, "sc"], paths=8).rows[0].strategy == "mine"


def test_questions_without_gold_are_mentioned(tmp_path: Path) -> None:
    paths = [RecordedPath("a", [0.5] * 4, [9.0] * 4)] * 3
    for golds, note in ((["a", None, "a"], True), (["a", "a", "a"], False), ([None, None, None], False)):
        questions = [Question(f"q{n}", gold, None, paths) for n, gold in enumerate(golds)]
        write_pool(tmp_path / "tiny.parquet", questions, PoolInfo(window=2))
        notes = se.compare(tmp_path / "tiny.parquet", ["sc"]).notes
        assert any(one.startswith("questions without a gold answer: 1 of 3;") for one in notes) is note


def test_a_pool_smaller_than_the_warm_up_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="ask for ddc:warmup=2"):
        se.compare(tiny_pool(tmp_path, [4, 3]), ["sc", "ddc"])


def test_no_interval_is_without_width_however_few_questions_changed(tmp_path: Path) -> None:
    pool = pool_of(tmp_path, *["7" * 8] * 3)
    first, second = str(se.compare(pool, ["sc", "ac"], repeats=2)).splitlines()[2:4]
    assert re.split(r"\s{2,}", first)[:3] == ["sc", "100.0 [40.0, 100.0]", "–"]
    assert re.split(r"\s{2,}", second)[2:4] == ["+0.0 [-60.0, +60.0]", "100.0 [≥ 36.8]"]
