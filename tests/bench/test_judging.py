"""Judged answers: by meaning or by string, cached under the pool's hash, and judged again if they cannot be cached."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import sureenough as se
from sureenough.bench.judging import cache_folder, judge_question
from sureenough.errors import UsageError
from sureenough.pools import Pool
from tests.bench.making import pool_of

ANSWERS = ["1/2", "0.5", "7", r"\frac12", None, "7.0", "1/3"]


def pool(folder: Path, answers: list[str | None] | None = None) -> Path:
    return pool_of(folder, answers or ANSWERS, gold="0.50", tokens=3, window=2)


def test_answers_are_grouped_and_graded_by_meaning(tmp_path: Path) -> None:
    (question,) = Pool(pool(tmp_path))
    judged = judge_question(question, "meaning")
    assert judged.classes == {"1/2": 0, "0.5": 0, "7": 1, r"\frac12": 0, "7.0": 1, "1/3": 2}
    assert judged.right == {"1/2": True, "0.5": True, "7": False, r"\frac12": True, "7.0": False, "1/3": False}


def test_by_string_only_the_vote_changes(tmp_path: Path) -> None:
    (question,) = Pool(pool(tmp_path))
    judged = judge_question(question, "string")
    assert len(set(judged.classes.values())) == 6
    assert judged.right is not None
    assert judged.right[r"\frac12"]
    by_string = se.compare(pool(tmp_path, ["7", "7", "1/2", "0.5", r"\frac12"]), ["sc"], equal="string")
    by_meaning = se.compare(pool(tmp_path, ["7", "7", "1/2", "0.5", r"\frac12"]), ["sc"])
    assert (by_string.rows[0].accuracy, by_meaning.rows[0].accuracy) == (0.0, 1.0)
    assert any("strings are equal" in note for note in by_string.notes)


def test_a_second_comparison_reads_them_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUREENOUGH_CACHE", str(tmp_path / "kept"))
    file = pool(tmp_path)
    first = se.compare(file, ["sc", "ac"])
    (kept,) = (tmp_path / "kept").iterdir()
    told = json.loads(kept.read_text())
    told["q0"][1] = dict.fromkeys(told["q0"][1], False)
    kept.write_text(json.dumps(told))
    assert first.rows[0].accuracy == pytest.approx(1.0)
    assert se.compare(file, ["sc"]).rows[0].accuracy == pytest.approx(0.0), "the kept verdicts were used"
    assert se.compare(file, ["sc"], skip_damaged=True).rows[0].accuracy == pytest.approx(1.0), (
        "other settings, another file"
    )
    pool(tmp_path, ["0.5", "0.5"])
    assert se.compare(file, ["sc"]).rows[0].accuracy == pytest.approx(1.0), "another pool under the same name"


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"q0": 5}', '{"q0": [1, 2, 3]}', '{"q0": [7, null]}'])
def test_a_damaged_cache_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str) -> None:
    monkeypatch.setenv("SUREENOUGH_CACHE", str(tmp_path / "kept"))
    file = pool(tmp_path)
    se.compare(file, ["sc"])
    (kept,) = (tmp_path / "kept").iterdir()
    kept.write_text(damage)
    assert se.compare(file, ["sc"]).rows[0].accuracy == pytest.approx(1.0)
    assert len(json.loads(kept.read_text())["q0"]) == 2


def test_a_cache_that_cannot_be_written_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("SUREENOUGH_CACHE", str(tmp_path / "file" / "folder"))
    assert se.compare(pool(tmp_path), ["sc"]).rows[0].accuracy == pytest.approx(1.0)


def test_where_it_is_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("SUREENOUGH_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "sureenough"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.delenv("LOCALAPPDATA", raising=False)
    assert cache_folder() == Path.home() / ".cache" / "sureenough"


def test_what_cannot_be(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="equal is 'colour'"):
        se.compare(pool(tmp_path), ["sc"], equal="colour")  # type: ignore[arg-type]
