"""Lines that survive any end: wherever a file is cut, every whole line is there and the next one follows."""

from __future__ import annotations

import errno
import json
import os
import re
import stat
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pytest

from sureenough.errors import TraceError
from sureenough.pools import Pool, PoolInfo, Question
from sureenough.pools.journal import (
    Journal,
    JsonLinesFile,
    encode,
    holds_lines,
    read_lines,
    write_journal_pool,
)
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
        file, kept = tmp_path / f"cut{cut}", dict[int, Any]()
        file.write_bytes(data[:cut])
        with JsonLinesFile(file, TERMS, "rows", kept.__setitem__) as lines:
            assert list(kept.values()) == ROWS[: max(0, data[:cut].count(b"\n") - 1)]
            assert lines.count == len(kept)
            lines.add({"n": "next"})
        assert [line for place, line in read_lines(file) if place] == [*kept.values(), {"n": "next"}]


def test_other_terms_are_refused(tmp_path: Path) -> None:
    with JsonLinesFile(tmp_path / "f", TERMS, "rows") as lines:
        lines.add(ROWS[0])
    todo = "give the same command to go on, or name another output with -o or delete this file to begin anew"
    with pytest.raises(TraceError) as refusal:
        JsonLinesFile(tmp_path / "f", TERMS | {"seed": 1}, "rows")
    assert str(refusal.value) == f"{tmp_path / 'f'} was begun with seed 0, not 1. It holds 1 row: {todo}"
    others = {"seed": 1, "model": "n", "template": "t", "kind": "choice", "k": 3}
    difference = "with model 'm', not 'n' (other differences: kind, template, k, seed)"
    with pytest.raises(TraceError, match=re.escape(f"{difference}. It holds 1 row:")):
        JsonLinesFile(tmp_path / "f", others, "rows")


@pytest.mark.parametrize(
    "begun",
    [
        b"",
        encode({"terms": {"seed": 7}}),
        encode({"terms": {"seed": 7}}) + b'{"n": 0',
        *map(bytes, (1, 10, 5_000)),  # zeros after a power failure
    ],
)
def test_a_file_without_lines_is_begun_anew(tmp_path: Path, begun: bytes) -> None:
    file = tmp_path / "f"
    file.write_bytes(begun)
    assert not holds_lines(file)
    with JsonLinesFile(file, TERMS, "rows") as lines:
        assert lines.at(lines.add(ROWS[0])) == ROWS[0]
    assert [line for _, line in read_lines(file)] == [{"terms": TERMS}, ROWS[0]]
    assert holds_lines(file)


@pytest.mark.parametrize("content", [b"a note of the user's", b"x" * 100_000, b'{"term": 1}', b"\0\0note"])
def test_a_file_of_the_users_without_an_end_of_line_is_not_emptied(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "f"
    file.write_bytes(content)
    with pytest.raises(TraceError, match="f does not start with its terms: it is not a journal, or it is damaged"):
        JsonLinesFile(file, TERMS, "rows")
    assert file.read_bytes() == content


def test_a_refusal_shows_the_beginning_of_long_terms(tmp_path: Path) -> None:
    huge = {"model": "m" * 100_000, **{f"term {n}": n for n in range(1_000)}}
    with JsonLinesFile(tmp_path / "f", huge, "rows") as lines:
        lines.add(ROWS[0])
    with pytest.raises(TraceError, match=r"model 'mmmm.*, not 'm' \(other differences: seed, term 0, .*\)") as refusal:
        JsonLinesFile(tmp_path / "f", TERMS, "rows")
    assert len(str(refusal.value)) < 1_500


def test_a_line_that_is_none_is_named(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_bytes(encode({"terms": TERMS}) + encode({}) + b'not a line\n{"n": 1}\n')
    with pytest.raises(TraceError, match="f, line 3: the line is damaged"):
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
        assert set(journal) == set(made)
        assert ("q0", 99) not in journal
        assert journal.paths("none") == []
        for name in ("q2", "q0"):
            paths = journal.paths(name)
            assert [path.number for path in paths] == [0, 1, 2, 3]
            for path in paths:
                assert path.number is not None
                first = made[name, path.number]
                assert (path.answer, path.text, path.seed) == (first.answer, first.text, first.seed)
                assert np.array_equal(path.conf, np.asarray(first.conf).astype("f2"))


# -- issue 14, item 11


class FailingHandle:
    """A file whose next writes store a few bytes and then fail, as on a full disk."""

    def __init__(self, handle: Any, failures: int) -> None:
        self._handle, self.failures = handle, failures

    def write(self, data: bytes) -> int:
        if not self.failures:
            return int(self._handle.write(data))
        self.failures -= 1
        self._handle.write(data[:7])
        raise OSError(errno.ENOSPC, "No space left on device")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._handle, name)


def test_14_11_failed_writes_leave_no_half_line(tmp_path: Path) -> None:
    file = tmp_path / "f"
    with JsonLinesFile(file, TERMS, "rows") as lines:
        lines.add(ROWS[0])
        lines._handle = FailingHandle(lines._handle, 3)  # type: ignore[assignment]
        for _ in range(3):
            with pytest.raises(TraceError, match=r"No space left on device\. 1 rows are safe in it"):
                lines.add(ROWS[1])
        offset = lines.add(ROWS[2])
        assert lines.at(offset) == ROWS[2]
    assert [line for place, line in read_lines(file) if place] == [ROWS[0], ROWS[2]]


@pytest.mark.parametrize("place", [0, 1, 2, 3])
def test_14_11_a_flipped_bit_in_any_line_is_noticed(tmp_path: Path, place: int) -> None:
    file = tmp_path / "f"
    with JsonLinesFile(file, TERMS, "rows") as lines:
        for row in ROWS[:3]:
            lines.add(row)
    data = file.read_bytes()
    starts = [0, *(at + 1 for at, byte in enumerate(data) if byte == 10)]
    for at in range(starts[place], starts[place + 1] - 1):
        for bit in (1, 16):
            if data[at] ^ bit == 10:
                continue  # a new end of line makes two damaged lines of one
            file.write_bytes(data[:at] + bytes([data[at] ^ bit]) + data[at + 1 :])
            with pytest.raises(TraceError, match=r"damaged|terms|not a journal|was begun with"):
                JsonLinesFile(file, TERMS, "rows").close()


def path_line(**changes: Any) -> bytes:
    line: dict[str, Any] = {"question": "a", "path": 0, "answer": "1", "finish": "stop", "seed": 7, "text": "t"}
    line |= {"peak": "ADgANA==", "conf": "ADwAQQ=="} | changes
    body = json.dumps({name: value for name, value in line.items() if value is not ...}).encode()
    return b'%s, "crc32": "%08x"}\n' % (body[:-1], crc32(body))


@pytest.mark.parametrize(
    "changes",
    [
        {"question": ...}, {"question": ["a"]}, {"path": ...}, {"path": "0"}, {"path": True}, {"answer": ...},
        {"answer": 5}, {"finish": 3}, {"seed": "x"}, {"text": {}}, {"peak": ...}, {"peak": 7}, {"peak": "A"},
        {"peak": "ADg"}, {"peak": "é"}, {"conf": "ADwA"}, {"conf": "ADw="}, {"conf": "AHwAfA=="}, {"conf": None},
        {"seed": 2**63}, {"seed": True}, {"path": 2**31}, {"path": -1}, {"question": "\ud800"}, {"answer": "\udfff"},
        {"text": "\ud800"}, {"finish": "\ud800"},
    ],
)  # fmt: skip
def test_14_11_a_line_that_is_not_a_path_is_named(tmp_path: Path, changes: dict[str, Any]) -> None:
    file = tmp_path / "j"
    file.write_bytes(encode({"terms": TERMS}) + path_line(**changes))
    said = r"j, at byte \d+: the line is not a recorded path; remove it"
    with pytest.raises(TraceError, match=said), Journal(file, TERMS) as journal:
        list(journal.values())


def test_14_11_the_pool_is_on_disk_before_the_journal_may_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    happened: list[str] = []
    synced, replaced = os.fsync, os.replace

    def fsync(descriptor: int) -> None:
        happened.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
        synced(descriptor)

    def rename(a: Path, b: Path) -> None:
        happened.append("rename")
        replaced(a, b)

    with Journal(tmp_path / "j", TERMS) as journal:
        journal.add("q", RecordedPath("9", [0.5], [1.0], 0))
        monkeypatch.setattr(os, "fsync", fsync)
        monkeypatch.setattr(os, "replace", rename)
        write_journal_pool(tmp_path / "p", [Question("q", "9", 1, [])], journal, PoolInfo(), keep_text=True)
    assert happened == ["file", "rename", "folder"]
    assert [len(question.paths) for question in Pool(tmp_path / "p")] == [1]
