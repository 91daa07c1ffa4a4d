"""Pools: what is written is read back; what is damaged is named, or left out and counted."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sureenough.bench import compare
from sureenough.core.events import Summary
from sureenough.data import BUILTIN_POOL, FRESH, FRESH_POOLS, PROBLEMS, PROBLEMS_POOL
from sureenough.datasets.files import load
from sureenough.errors import TraceError, UsageError
from sureenough.pools import Pool, PoolInfo, PoolWriter, Question, RecordedPath, write_pool
from sureenough.pools.schema import REQUIRED, SUMMARY


def question(name: str = "q1", paths: int = 3, tokens: int = 5) -> Question:
    rng = np.random.default_rng(len(name) + paths)
    made = [
        RecordedPath(str(i % 2), rng.random(tokens), rng.normal(9, 1, tokens), text="t", seed=i) for i in range(paths)
    ]
    return Question(name, "1", 3, made, f"What is {name}?")


def table(rows: list[dict[str, Any]], **changes: Any) -> pa.Table:
    base = {"question": "q", "path": 0, "gold": "1", "level": 1, "answer": "1", "finish": "stop"}
    base |= {"peak": np.ones(3, np.float16), "conf": np.ones(3, np.float16)} | changes
    full = [base | row for row in rows]
    schema = pa.schema([(name, kind) for name, kind in REQUIRED.items() if name in base and base[name] is not ...])
    return pa.Table.from_pylist([{k: v for k, v in row.items() if k in schema.names} for row in full], schema=schema)


def pool_file(tmp_path: Path, rows: list[dict[str, Any]], **changes: Any) -> Path:
    file = tmp_path / "pool.parquet"
    pq.write_table(table(rows, **changes), file)
    return file


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    info = PoolInfo(dataset="made up", model="none", window=7, sampling={"temperature": 0.6}, more={"by": "test"})
    written = [question("q1"), question("q2", paths=2, tokens=0), question("q3", tokens=9)]
    write_pool(tmp_path / "p.parquet", written, info, optional=["text", "seed", "tokens", "question_text"])
    pool = Pool(tmp_path / "p.parquet")
    assert (pool.info, pool.rows) == (info, 8)
    for before, after in zip(written, pool, strict=True):
        assert before.text == after.text
        assert (before.id, before.gold, before.level) == (after.id, after.gold, after.level)
        for a, b in zip(before.paths, after.paths, strict=True):
            assert (a.answer, a.text, a.seed, a.finish) == (b.answer, b.text, b.seed, b.finish)
            np.testing.assert_array_equal(np.asarray(a.conf, np.float16), b.conf)
            np.testing.assert_array_equal(np.asarray(a.peak, np.float16), b.peak)
            assert np.asarray(b.conf).dtype == np.float64


@pytest.mark.parametrize("kind", ["summaries", "none"])
def test_a_pool_without_signals(tmp_path: Path, kind: str) -> None:
    """Empty paths, and summaries without a mean peak, too."""
    whole = question("q1", tokens=9)
    known = [path.summarised(4) for path in whole.paths]
    if kind == "none":
        known = [
            RecordedPath(path.answer, tokens=path.tokens, text=path.text)
            for path in [*known, RecordedPath("3", tokens=0)]
        ]
    else:
        known[1] = RecordedPath("5", tokens=2, known=(4, Summary(2, 1.5, 2.5)))
    optional = ["text", *(SUMMARY if kind == "summaries" else ())]
    write_pool(tmp_path / "p.parquet", [replace(whole, paths=known)], PoolInfo(window=4), optional=optional)
    pool = Pool(tmp_path / "p.parquet")
    (read,) = pool
    assert (pool.signals, pool.tokens) == (kind, sum(path.tokens for path in known))
    for before, after in zip(known, read.paths, strict=True):
        assert (after.answer, after.tokens, after.text) == (before.answer, before.tokens, before.text)
        assert after.signals == kind
        wanted, got = ([getattr(one.summary(4), name) for name in SUMMARY] for one in (before, after))
        assert got == pytest.approx(wanted, rel=1e-6, nan_ok=True)
    write_pool(tmp_path / "q.parquet", [replace(whole, paths=read.paths)], PoolInfo(), optional=optional)
    if kind == "none":
        assert Pool(tmp_path / "q.parquet").window() == 16
    else:
        with pytest.raises(TraceError, match="has values of windows, but its metadata has not one window"):
            Pool(tmp_path / "q.parquet")


@pytest.mark.parametrize("value", [-1.0, float("inf"), float("-inf")])
def test_summaries_that_no_path_has_are_damage(value: float, tmp_path: Path) -> None:
    path = RecordedPath("5", tokens=2, known=(4, Summary(2, 1.5, value)))
    write_pool(tmp_path / "p.parquet", [replace(question("q1"), paths=[path])], PoolInfo(window=4), optional=SUMMARY)
    with pytest.raises(TraceError, match=r"row 0: its values of windows are .*; none may be negative or infinite"):
        list(Pool(tmp_path / "p.parquet"))


def test_signals_that_are_null_in_every_row_may_have_any_type(tmp_path: Path) -> None:
    rows = pa.table({"question": ["q"] * 3, "path": [0, 1, 2], "answer": ["1", "2", "1"], "tokens": [7, 8, 9],
                     **dict.fromkeys(("gold", "level", "finish", "peak", "conf"), pa.nulls(3))})  # fmt: skip
    pq.write_table(rows, tmp_path / "p.parquet")
    pool = Pool(tmp_path / "p.parquet")
    assert (pool.signals, pool.tokens, pool.lengths()) == ("none", 24, [7, 8, 9])
    assert [path.tokens for question in pool for path in question.paths] == [7, 8, 9]


def test_columns_that_are_not_known_are_left_out(tmp_path: Path) -> None:
    """Such as those that earlier recordings had: answers to probes, and a sum over the vocabulary."""
    write_pool(tmp_path / "p.parquet", [question()], PoolInfo())
    known = pq.read_table(tmp_path / "p.parquet")
    more = known.append_column("mean_certainty", pa.array([1.0] * 3))
    more = more.append_column("probes", pa.array([[{"at": 2, "answer": "1"}], [], None]))
    pq.write_table(more, tmp_path / "p.parquet")
    (read,) = Pool(tmp_path / "p.parquet")
    assert [path.answer for path in read.paths] == ["0", "1", "0"]


def test_a_question_may_span_batches_and_row_groups(tmp_path: Path) -> None:
    file = tmp_path / "p.parquet"
    rows = [{"question": f"q{i // 700}", "path": i % 700} for i in range(2100)]
    pq.write_table(table(rows), file, row_group_size=600)
    assert [(q.id, len(q.paths)) for q in Pool(file)] == [("q0", 700), ("q1", 700), ("q2", 700)]


def test_the_pools_that_ship_are_what_their_card_says() -> None:
    pool = Pool(BUILTIN_POOL)
    questions = list(pool)
    assert (len(questions), pool.info.window, pool.signals) == (43, 64, "tokens")
    assert {len(q.paths) for q in questions} == {64}
    assert all(path.text is None for q in questions for path in q.paths)
    assert BUILTIN_POOL.stat().st_size < 3e6
    every = {q.id: q for q in Pool(FRESH)}
    assert [len(list(Pool(file))) for file in FRESH_POOLS] == [160, 160, 128, 128, 40]
    assert sum(file.stat().st_size for file in FRESH_POOLS) < 1.5e6
    for question in questions:
        other = every[question.id]
        assert (other.gold, other.kind) == (question.gold, question.kind)
        for whole, known in zip(question.paths, other.paths, strict=True):
            assert (known.answer, known.tokens, known.signals) == (whole.answer, whole.tokens, "summaries")
            values = [[getattr(path.summary(64), name) for name in SUMMARY] for path in (whole, known)]
            assert values[1] == pytest.approx(values[0], rel=1e-6)


def test_the_pool_with_texts_is_what_its_card_says() -> None:
    pool = Pool(PROBLEMS_POOL)
    questions = list(pool)
    for question, problem in zip(questions, load(PROBLEMS), strict=True):
        assert (question.id, question.text, question.gold) == (problem.id, problem.question, problem.gold)
    assert {len(q.paths) for q in questions} == {32}
    assert all(len(path.text or "") == path.tokens for q in questions for path in q.paths), "one token per character"
    assert (pool.tokens, pool.info.window, pool.info.model) == (77_812, 32, "built-in")
    assert PROBLEMS_POOL.stat().st_size < 1.5e6


def test_questions_are_not_a_pool() -> None:
    with pytest.raises(TraceError, match=r"is not a pool; a pool is .*: `sureenough record questions\.csv -o pool"):
        Pool(PROBLEMS)


def test_nothing_appears_when_writing_breaks_off(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="lost"), PoolWriter(tmp_path / "p.parquet", PoolInfo()) as writer:
        writer.write(question())
        raise RuntimeError("lost")
    assert list(tmp_path.iterdir()) == []


def test_an_older_file_stays_until_the_new_one_is_whole(tmp_path: Path) -> None:
    file = tmp_path / "p.parquet"
    write_pool(file, [question("old")], PoolInfo())
    writer = PoolWriter(file, PoolInfo())
    writer.write(question("new"))
    assert [q.id for q in Pool(file)] == ["old"]
    writer.close()
    assert [q.id for q in Pool(file)] == ["new"]


def test_a_question_is_written_once(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="'q1' was written already"):
        write_pool(tmp_path / "p.parquet", [question("q1"), question("q2"), question("q1")], PoolInfo())
    assert list(tmp_path.iterdir()) == []


def test_numbers_that_float16_cannot_hold(tmp_path: Path) -> None:
    huge = Question("q", None, None, [RecordedPath("a", [0.5], [70000.0])])
    with pytest.raises(TraceError, match="above 65,504"):
        write_pool(tmp_path / "p.parquet", [huge], PoolInfo())


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="cannot write"):
        PoolWriter(tmp_path / "no" / "such" / "p.parquet", PoolInfo())


# -- files that are no pools


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"no such file: .*nowhere\.parquet; a pool is a Parquet file of paths"):
        Pool(tmp_path / "nowhere.parquet")


@pytest.mark.parametrize("keep", [0, 10, 2000])
def test_a_truncated_file(tmp_path: Path, keep: int) -> None:
    file = tmp_path / "cut.parquet"
    file.write_bytes(BUILTIN_POOL.read_bytes()[:keep])
    with pytest.raises(TraceError, match="not a whole Parquet file"):
        Pool(file)


@pytest.mark.parametrize("column", ["question", "gold", "conf"])
def test_a_missing_column(tmp_path: Path, column: str) -> None:
    with pytest.raises(TraceError, match=f"has no column {column}; a pool needs question, path"):
        Pool(pool_file(tmp_path, [{}], **{column: ...}))


def with_column(file: Path, name: str, values: Any, rows: int = 1) -> Path:
    """A pool in which one column has other values."""
    good = table([{"path": number} for number in range(rows)])
    rest = good.drop_columns([name]) if name in good.schema.names else good
    pq.write_table(rest.append_column(name, values), file)
    return file


@pytest.mark.parametrize(
    ("column", "value", "wanted"),
    [
        ("conf", "high", "column conf is string; it must be a list of floats"),
        ("peak", [1], "column peak is list<.*int64>; it must be a list of floats"),
        ("answer", 7, "column answer is int64; it must be string"),
        *[(name, value, f"column {name} is .*; it must be int") for name in ("path", "seed", "level")
          for value in ("x", 1.5, [1], True)],
    ],
)  # fmt: skip
def test_a_column_of_the_wrong_kind(tmp_path: Path, column: str, value: Any, wanted: str) -> None:
    with pytest.raises(TraceError, match=wanted):
        Pool(with_column(tmp_path / "p.parquet", column, pa.array([value])))


def test_one_broken_text_spoils_its_own_row_only(tmp_path: Path) -> None:
    texts = [b"\xff\xfe" if i == 700 else b"7" for i in range(1200)]
    broken = pa.StringArray.from_buffers(1200, *pa.array(texts, pa.binary()).buffers()[1:])
    file = with_column(tmp_path / "p.parquet", "answer", broken, rows=1200)
    with pytest.raises(TraceError, match="row 700: its answer is not UTF-8 text"):
        list(Pool(file))
    pool = Pool(file, skip_damaged=True)
    assert [len(q.paths) for q in pool] == [1199]
    assert pool.damaged == 1


def test_an_empty_pool(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="holds no paths"):
        Pool(pool_file(tmp_path, []))


@pytest.mark.parametrize(
    ("said", "says"),
    [
        (b"{", "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
        (b"[]", "not a JSON object"),
        (b'{"schema": 9}', "schema 9, this version reads 1"),
        (b'{"window": 0}', "its window is 0; it must be a whole number"),
        (b'{"window": "wide"}', "its window is 'wide'"),
        (b'{"window": true}', "its window is True"),
        (b'{"model": 7}', "its model is 7; it must be a text"),
        (b'{"dataset": ["a"]}', "its dataset is .'a'.; it must be a text"),
        (b'{"sampling": [1]}', "its sampling is .1.; it must be an object"),
        (b'{"kind": null}', "its kind is None; it must be a text"),
        (b'{"prompt": {}}', "its prompt is {}; it must be a text"),
    ],
)
def test_metadata_that_cannot_be_used(tmp_path: Path, said: bytes, says: str) -> None:
    file = tmp_path / "p.parquet"
    pq.write_table(table([{}]).replace_schema_metadata({b"sureenough": said}), file)
    with pytest.raises(TraceError, match=says):
        Pool(file)


def test_metadata_is_not_needed_and_unknown_keys_are_kept(tmp_path: Path) -> None:
    assert Pool(pool_file(tmp_path, [{}])).info == PoolInfo()
    file = tmp_path / "p.parquet"
    said = json.dumps({"model": "m", "colour": "blue"}).encode()
    pq.write_table(table([{}]).replace_schema_metadata({b"sureenough": said}), file)
    assert Pool(file).info.more == {"colour": "blue"}
    pq.write_table(table([{}]).replace_schema_metadata({b"sureenough": b'{"sampling": null}'}), file)
    assert Pool(file).info.sampling == {}


# -- damaged rows

SICK: dict[str, dict[str, Any]] = {
    "NaN or infinite": {"conf": np.array([1, np.nan, 1], np.float16)},
    "infinite values": {"peak": np.array([1, np.inf, 1], np.float16)},
    "3 values of peak and 2 of conf": {"conf": np.ones(2, np.float16)},
    "no signals": {"conf": None},
    "no question": {"question": None},
}


@pytest.mark.parametrize("says", SICK)
def test_a_damaged_row_is_named_or_left_out(tmp_path: Path, says: str) -> None:
    file = pool_file(tmp_path, [{}, {}, SICK[says], {}])
    with pytest.raises(TraceError, match=rf"row 2: .*{says}.*--skip-damaged of replay, or skip_damaged = true"):
        list(Pool(file))
    pool = Pool(file, skip_damaged=True)
    for _ in range(2):
        assert [len(q.paths) for q in pool] == [3]
        assert pool.damaged == 1


def test_a_pool_of_damaged_rows_only(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="all of its 1 rows are damaged"):
        list(Pool(pool_file(tmp_path, [SICK["no signals"]]), skip_damaged=True))


def test_bytes_that_rotted_inside_the_file(tmp_path: Path) -> None:
    file = tmp_path / "p.parquet"
    rng = np.random.default_rng(0)
    signals = rng.random((20, 200)).astype(np.float16)
    rows = [{"question": f"q{i}", "conf": signal, "peak": signal} for i, signal in enumerate(signals)]
    pq.write_table(table(rows), file, row_group_size=5, compression="zstd")
    place = pq.ParquetFile(file).metadata.row_group(2).column(7).data_page_offset
    data = bytearray(file.read_bytes())
    data[place : place + 400] = b"\xff" * 400
    file.write_bytes(bytes(data))
    with pytest.raises(TraceError, match="cannot be decoded"):
        list(Pool(file))
    pool = Pool(file, skip_damaged=True)
    assert len(list(pool)) == 15
    assert pool.damaged == 5


def test_rows_of_a_question_must_stand_together(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="'a' are not together; sort the pool"):
        list(Pool(pool_file(tmp_path, [{"question": "a"}, {"question": "b"}, {"question": "a"}])))


# -- single paths


@pytest.mark.parametrize(
    ("peak", "conf", "says"),
    [
        ([0.5], [1.0, 2.0], "1 values of peak and 2 of conf"),
        ([0.5], [float("nan")], "conf of a recorded path holds NaN"),
        (["x"], [1.0], "peak of a recorded path must be a flat list"),
        ([[0.5]], [1.0], "flat list"),
        ([0.5], [10**400], "list of numbers"),
    ],
)
def test_a_path_that_makes_no_sense(peak: Any, conf: Any, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        RecordedPath("a", peak, conf)


def test_a_path_without_signals_has_its_number_of_tokens() -> None:
    assert RecordedPath("a", tokens=7).summary(4).tokens == 7
    wrong: list[dict[str, Any]] = [{}, {"tokens": -1}, {"tokens": 2.5}, {"peak": [0.5]}]
    for values in wrong:
        with pytest.raises(UsageError):
            RecordedPath("a", **values)
    with pytest.raises(UsageError, match="this needs the confidence of every token"):
        RecordedPath("a", tokens=7).windows(4)


def test_an_answer_is_text() -> None:
    with pytest.raises(UsageError, match="is 5; it must be a string"):
        RecordedPath(5, [0.5], [1.0])  # type: ignore[arg-type]
    assert RecordedPath("  ", [0.5], [1.0]).answer is None


def test_windows_are_worked_out_once() -> None:
    path = RecordedPath("a", [0.5, 0.5], [1, 2])
    assert path.windows(2) is path.windows(2)
    assert path.windows(1) is not path.windows(2)
    assert path.tokens == 2


def test_a_pool_without_a_window_has_one_by_the_lengths_of_all_its_paths(tmp_path: Path) -> None:
    lengths = (100, 300, 340, 900)
    paths = [RecordedPath("1", [0.5] * n, [9.0] * n) for n in lengths]
    questions = [Question(str(i), None, None, paths[i : i + 2]) for i in (0, 2)]
    write_pool(tmp_path / "p.parquet", questions, PoolInfo())
    assert Pool(tmp_path / "p.parquet").window() == 64
    assert compare(tmp_path / "p.parquet", ["sure"]).options.window == 64
    assert compare(tmp_path / "p.parquet", ["sure"], window=8).options.window == 8
    write_pool(tmp_path / "q.parquet", questions, PoolInfo(window=32))
    assert compare(tmp_path / "q.parquet", ["sure"]).options.window == 32
