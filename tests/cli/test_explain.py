"""`sureenough explain` as a user types it."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from sureenough.data import BUILTIN_POOL
from tests.cli.test_replay import refused, sureenough


def test_one_question_in_sentences() -> None:
    done = sureenough("explain", "-q", "gsm8k-test-0138", "-s", "sure")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("Question gsm8k-test-0138, gold answer ")
    assert lines[1].startswith("Answer: ")
    assert any("points of vote share" in line for line in lines)


def test_by_place_and_as_json() -> None:
    result = json.loads(sureenough("explain", "-q", "2", "-s", "ddc", "--json").stdout)
    assert result["question"] == "gsm8k-test-0007"
    assert result["strategy"] == "ddc"
    assert result["tokens"]["total"] > 0


def test_without_words_it_takes_the_first() -> None:
    assert sureenough("explain").stdout.startswith("Question gsm8k-test-0000")


def test_bad_words() -> None:
    assert "did you mean 'gsm8k-test-0007'?" in refused("explain", "-q", "gsm8k-test-007")
    assert "it has 50, from" in refused("explain", "-q", "????")
    assert "did you mean 'ddc'" in refused("explain", "-s", "dcc")
    assert "no such file" in refused("explain", "nowhere.parquet")


def test_recorded_text_does_not_control_the_terminal(tmp_path: Path) -> None:
    rows = pq.read_table(BUILTIN_POOL).slice(0, 20)
    for column in ("answer", "gold", "question"):
        hostile = pa.array([f"{column}\x1b]52;c;aGk=\x07\x9b2J"] * len(rows))
        rows = rows.set_column(rows.schema.get_field_index(column), column, hostile)
    pq.write_table(rows, tmp_path / "pool.parquet")
    for words in ([], ["--json"]):
        done = sureenough("explain", str(tmp_path / "pool.parquet"), "-s", "sc", *words)
        assert done.returncode == 0, done.stderr
        assert "\\x1b]52" in done.stdout or "\\u001b]52" in done.stdout
        assert not set("\x1b\x07\x9b") & set(done.stdout)
    message = refused("explain", str(tmp_path / "pool.parquet"), "-q", "\x1b]0;")
    assert "\x1b" not in message
