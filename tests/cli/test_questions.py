"""`sureenough replay --question` as a user types it."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sureenough.data import BUILTIN_POOL
from tests.processes import refused, sureenough


def test_one_question_in_sentences() -> None:
    done = sureenough("replay", "-q", "gsm8k-test-0138", "-s", "sure")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("Question gsm8k-test-0138, gold answer ")
    assert lines[1].startswith("Answer: ")
    assert any("points of vote share" in line for line in lines)


def test_by_place_and_as_json() -> None:
    result = json.loads(sureenough("replay", str(BUILTIN_POOL), "-q", "2", "-s", "ddc", "--json").stdout)
    assert result["question"] == "gsm8k-test-0007"
    assert result["strategy"] == "ddc"
    assert result["tokens"]["total"] > 0


def test_the_first_question_that_ships_has_its_text() -> None:
    lines = sureenough("replay", "-q", "1").stdout.splitlines()
    assert lines[:2] == ["Question arith-5-3-1, gold answer 219.", "Solve 76(51x+929)+124x+6756=3875x+104735 for x."]


def test_every_path_in_full() -> None:
    words = ["replay", "-q", "1", "-s", "ddc:warmup=8,weight=mean,drop=1", "--show-paths"]
    output, data = sureenough(*words).stdout, json.loads(sureenough(*words, "--json").stdout)
    assert data["question_text"].startswith("Solve 76(51x+929)")
    assert data["reason"] == "settled"
    assert output.count("\nPath ") == data["started"] == len(data["path_list"])
    assert output.count("pruned by the drop test") == data["tiers"]["drop"] > 0
    assert "Path 1: kept, 389 of 389 tokens, answer 219\n76*51=3876\n" in output
    pruned = next(path for path in data["path_list"] if path["fate"] == "pruned")
    text = output.split(f"\nPath {pruned['number']}: ")[1].split("\n", 1)[1].split("\n\nPath ")[0]
    assert len(text.rstrip("\n")) in (pruned["tokens"], pruned["tokens"] - 1), "its text ends at the token of the cut"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("-q", "gsm8k-test-007"), "did you mean 'gsm8k-test-0007'?"),
        (("-q", "????"), "it has 62, from"),
        (("-q", "1", "-s", "dcc"), "did you mean 'ddc'"),
        (("-q", "1", "-s", "ac ddc"), "explains one strategy on one pool"),
        (("-q", "1", str(BUILTIN_POOL), str(BUILTIN_POOL)), "explains one strategy on one pool"),
        (("-q", "1", "--repeats", "2"), "--repeats is for comparisons: leave it out with --question"),
        (("-q", "1", "--csv"), "--csv is for comparisons: leave it out with --question"),
        (("--show-paths",), "--show-paths prints the paths of one question: give its --question"),
        (("nowhere.parquet", "-q", "1"), "no such file"),
    ],
)
def test_bad_words(words: tuple[str, ...], says: str) -> None:
    assert says in refused("replay", *words)


def test_recorded_text_does_not_control_the_terminal(tmp_path: Path) -> None:
    rows = pq.read_table(BUILTIN_POOL).slice(0, 20)
    for column in ("answer", "gold", "question"):
        hostile = pa.array([f"{column}\x1b]52;c;aGk=\x07\x9b2J"] * len(rows))
        rows = rows.set_column(rows.schema.get_field_index(column), column, hostile)
    pq.write_table(rows, tmp_path / "pool.parquet")
    for words in ([], ["--json"]):
        done = sureenough("replay", str(tmp_path / "pool.parquet"), "-q", "1", "-s", "sc", *words)
        assert done.returncode == 0, done.stderr
        assert "\\x1b]52" in done.stdout or "\\u001b]52" in done.stdout
        assert not set("\x1b\x07\x9b") & set(done.stdout)
    message = refused("replay", str(tmp_path / "pool.parquet"), "-q", "\x1b]0;")
    assert "\x1b" not in message
