"""Files of questions: one content in every form, and whatever is wrong is named with its place."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sureenough.datasets.files import READERS, DatasetProblem, columns_of, load
from sureenough.errors import UsageError
from tests.requirements import FULL

ROWS: list[dict[str, Any]] = [
    {"id": "a", "question": 'What is "1,\n2" + 1?', "gold": "3", "kind": "math", "level": 1},
    {"id": "b", "question": "A\u2028 or B\x85?", "gold": "B", "kind": "choice", "level": 2},
    {"id": "c", "question": "π?", "gold": None, "kind": None, "level": None},
]
MEANT = [DatasetProblem(**row) for row in ROWS]


def written(tmp_path: Path, suffix: str, rows: list[dict[str, Any]]) -> Path:
    file = tmp_path / f"questions{suffix}"
    names = list(rows[0])
    if suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), file)
    elif suffix in (".csv", ".tsv"):
        with open(file, "w", encoding="utf-8", newline="") as handle:
            writer = csv.DictWriter(handle, names, delimiter="\t" if suffix == ".tsv" else ",")
            writer.writeheader()
            writer.writerows(rows)
    elif suffix == ".json":
        file.write_text(json.dumps(rows), "utf-8")
    else:
        file.write_text("\n\n".join(json.dumps(row, ensure_ascii=False) for row in rows), "utf-8")
    return file


@pytest.mark.parametrize("suffix", READERS)
def test_one_content_in_every_form(tmp_path: Path, suffix: str) -> None:
    assert load(written(tmp_path, suffix, ROWS)) == MEANT


@pytest.mark.parametrize("suffix", READERS)
def test_other_names_of_columns(tmp_path: Path, suffix: str) -> None:
    rows = [{"key": n, "problem": f"{n}?", "answer": n + 0.5, "hardness": f"Level {n}"} for n in (1, 2)]
    file = written(tmp_path, suffix, rows)
    meant = [DatasetProblem(str(n), f"{n}?", str(n + 0.5), None, n) for n in (1, 2)]
    assert load(file, columns_of("id=key, level=hardness")) == meant
    assert load(file, {"id": "key", "level": "hardness", "question": "problem", "gold": "answer"}) == meant
    with pytest.raises(UsageError, match=r"(line|row) \d: no column 'solution'; it has key, problem, answer"):
        load(file, {"gold": "solution"})


def test_a_byte_order_mark_is_no_part_of_the_first_column(tmp_path: Path) -> None:
    file = tmp_path / "excel.CSV"
    file.write_text("\ufeffquestion,gold\n1+1?,2\n", "utf-8")
    assert load(file) == [DatasetProblem("1", "1+1?", "2")]


def test_json_lines_in_a_json_file(tmp_path: Path) -> None:
    file = tmp_path / "q.json"
    file.write_text('{"question": "?"}\n{"question": "!"}\n')
    assert [problem.question for problem in load(file)] == ["?", "!"]


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("q.txt", "?", r"ends in \.jsonl, .*\.parquet"),
        ("q.jsonl", "", "holds no questions"),
        ("q.jsonl", "{", r"line 1 is not a question \("),
        ("q.jsonl", "[1]", "line 1 is not a question; a line looks like"),
        ("q.jsonl", "[" * 100_000, "line 1 is not a question"),
        ("q.jsonl", '{"question": "?"}\n\n{"text": "?"}', "line 3: no question; it has text"),
        ("q.jsonl", '{"question": ["?"]}', "line 1: the question is .* not text"),
        ("q.jsonl", r'{"question": "\ud83d?"}', r"line 1: the question holds half of a surrogate pair"),
        ("q.jsonl", r'{"question": "?", "gold": "\udc00"}', r"line 1: the gold holds half"),
        ("q.jsonl", '{"question": "?", "gold": {}}', "line 1: gold is {}; it must be"),
        ("q.jsonl", '{"question": "?", "level": 1.5}', "line 1: level is 1.5; it must be"),
        ("q.jsonl", '{"question": "?", "level": 1000}', "line 1: level is 1000"),
        (
            "q.jsonl",
            '{"question": "?", "kind": "essay"}',
            "line 1: unknown kind of answer 'essay'; known: math, choice",
        ),
        ("q.jsonl", '{"question": "?"}\n{"id": 1, "question": "?"}', "line 2: the id '1' is used twice"),
        ("q.jsonl", b"\xff\xfe", "is not UTF-8 text"),
        ("q.json", "[1]", "row 1 is not a question"),
        ("q.json", "[", "is not JSON"),
        ("q.csv", "", "holds no questions"),
        ("q.csv", "question,gold\n1,2\n", None),
        ("q.csv", "question,gold\n1+1?,2\n1,000+1?,2,3\n", "line 3 has more cells than the header"),
        ("q.csv", "text\n?\n", "line 2: no question; it has text, not .*--map question=COLUMN"),
        ("q.csv", "question;gold\n?;1\n", "it has question;gold, .*: separate the columns of CSV by commas"),
        ("q.csv", 'question\n?\n"open\n', "line 3 is not CSV"),
        ("q.csv", b"question\n\x00\xff", "is not UTF-8 text"),
        ("q.parquet", "question", "is not Parquet"),
        ("q.parquet", None, "cannot be read: No such file"),
        ("q.csv", None, "cannot be read: No such file"),
    ],
)
def test_what_is_wrong_and_where(tmp_path: Path, name: str, content: str | bytes | None, says: str | None) -> None:
    file = tmp_path / name
    if content is not None:
        file.write_bytes(content.encode() if isinstance(content, str) else content)
    if says is None:
        assert load(file)
        return
    with pytest.raises(UsageError, match=says):
        load(file)


@pytest.mark.parametrize(
    ("text", "says"),
    [("problem", "not a map of columns"), ("=x", "not a map"), ("gold=", "not a map"), ("text=x", "known: id, quest")],
)
def test_maps_that_are_none(text: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        columns_of(text)


def test_a_map_as_it_is_typed() -> None:
    assert columns_of("question=problem, gold = answer,") == {"question": "problem", "gold": "answer"}
    assert columns_of(None) == {}


def test_a_process_may_end_as_soon_as_it_has_read(tmp_path: Path) -> None:
    """Arrow's threads once held on to Python's file: one process in ten was aborted at its end."""
    code = "import sys, pathlib; from sureenough.datasets.files import load; load(pathlib.Path(sys.argv[1]))"
    command = [sys.executable, "-c", code, str(written(tmp_path, ".parquet", ROWS))]
    for _ in range(8 if FULL else 1):
        four = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(4)]
        assert [(one.communicate(timeout=60)[1], one.returncode) for one in four] == [("", 0)] * 4
