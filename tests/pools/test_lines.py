"""Lines that survive any end: wherever a file is cut, every whole line is there and the next one follows."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from sureenough.errors import TraceError
from sureenough.pools.journal import Journal, by_question
from sureenough.pools.json_lines import JsonLinesFile, read_lines
from sureenough.pools.path import RecordedPath

TERMS = {"seed": 0, "model": "m"}
ROWS = [{"n": n, "text": text} for n, text in enumerate(["", "é\u2028日本", "a\nb\r", "x" * 70_000])]


def test_cut_anywhere_the_whole_lines_are_kept(tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    with JsonLinesFile(whole, TERMS, "rows") as lines:
        places = [lines.add(row) for row in ROWS]
        assert [lines.at(place) for place in places] == ROWS
    data = whole.read_bytes()
    assert data.count(b"\n") == len(ROWS) + 1
    edges = [at for at, byte in enumerate(data) if byte == 10]
    cuts = sorted({0, 1, *(edge + d for edge in edges for d in (-1, 0, 1)), len(data) - 100, len(data) - 66_000})
    for cut in cuts:
        file = tmp_path / f"cut{cut}"
        file.write_bytes(data[:cut])
        with JsonLinesFile(file, TERMS, "rows") as lines:
            kept = [line for _, line in lines]
            assert kept == ROWS[: max(0, data[:cut].count(b"\n") - 1)]
            assert lines.kept == len(kept)
            lines.add({"n": "next"})
        assert [line for place, line in read_lines(file) if place] == [*kept, {"n": "next"}]


def test_other_terms_are_refused(tmp_path: Path) -> None:
    JsonLinesFile(tmp_path / "f", TERMS, "rows").close()
    with pytest.raises(TraceError, match="was begun with seed 0, not 1"):
        JsonLinesFile(tmp_path / "f", TERMS | {"seed": 1}, "rows")


def test_a_line_that_is_none_is_named(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_text(json.dumps({"terms": TERMS}) + "\n{}\nnot a line\n{}\n")
    with pytest.raises(TraceError, match="f, line 3: not a line of a journal"):
        JsonLinesFile(file, TERMS, "rows")


def test_paths_come_back_as_they_were_written(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    made = {
        (f"q{n % 3}", n // 3): RecordedPath(str(n), draw.random(n), 20 * draw.random(n), n // 3, "stop", "é" * n, n)
        for n in draw.permutation(12).tolist()
    }
    with Journal(tmp_path / "j", TERMS) as journal:
        for (question, _), path in made.items():
            journal.add(question, path)
    with Journal(tmp_path / "j", TERMS) as journal:
        assert set(journal.paths) == set(made)
        assert ("q0", 99) not in journal.paths
        for name, paths in by_question(journal.paths, ["q2", "q0", "none"]):
            assert [path.number for path in paths] == [0, 1, 2, 3]
            for path in paths:
                assert path.number is not None
                first = made[name, path.number]
                assert (path.answer, path.text, path.seed) == (first.answer, first.text, first.seed)
                assert np.array_equal(path.conf, np.asarray(first.conf).astype("f2"))
