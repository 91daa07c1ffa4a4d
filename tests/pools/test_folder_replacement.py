"""A folder of parts replaces an older one whole, survives being killed at any step, and leaves what others made."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sureenough.errors import TraceError
from sureenough.pools.write import MARKER, FolderReplacement


def make(folder: Path, *names: str, text: str = "") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_text(text)
    return folder


def files(folder: Path) -> dict[str, str]:
    """Every file below a folder, and its text."""
    return {str(file.relative_to(folder)): file.read_text() for file in folder.rglob("*") if file.is_file()}


def hidden(tmp_path: Path) -> Path:
    return make(tmp_path / ".pool.sureenough", MARKER)


def test_a_folder_takes_the_place_of_an_older_one(tmp_path: Path) -> None:
    pool = make(tmp_path / "pool", "a.parquet", "b.parquet", text="older")
    replacement = FolderReplacement(pool)
    make(replacement.begin(), "part-00000.parquet", text="new")
    replacement.publish({"a.parquet", "b.parquet"})
    assert files(tmp_path) == {"pool/part-00000.parquet": "new"}
    assert os.listdir(tmp_path) == ["pool"]


class Killed(BaseException):
    """As if the process ended here."""


@pytest.mark.parametrize("calls", range(10))
def test_a_process_that_is_killed_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, calls: int) -> None:
    """Before its n-th change of the disk; the next process makes the same replacement."""
    pool = make(tmp_path / "pool", "part-00000.parquet", text="older")
    remaining = calls

    def killed_in_time(function: str) -> None:
        original = getattr(os, function)

        def call(*arguments: object, **options: object) -> object:
            nonlocal remaining
            remaining -= 1
            if remaining < 0:
                raise Killed
            return original(*arguments, **options)

        monkeypatch.setattr(os, function, call)

    for function in ("mkdir", "replace", "unlink", "rmdir"):
        killed_in_time(function)

    def replace_pool() -> None:
        replacement = FolderReplacement(pool)
        replacement.recover()
        make(replacement.begin(), "part-00000.parquet", text="new")
        replacement.publish({"part-00000.parquet"})

    try:
        replace_pool()
    except Killed:
        monkeypatch.undo()
        texts = [text for name, text in files(tmp_path).items() if name.endswith("part-00000.parquet")]
        assert "older" in texts or files(pool) == {"part-00000.parquet": "new"}
        FolderReplacement(pool).recover()
        assert set(files(tmp_path)) == {"pool/part-00000.parquet"}
        replace_pool()
    monkeypatch.undo()
    assert files(tmp_path) == {"pool/part-00000.parquet": "new"}
    assert os.listdir(tmp_path) == ["pool"]


def test_unfinished_parts_are_removed(tmp_path: Path) -> None:
    make(hidden(tmp_path) / "new", "part-00000.parquet", "part-00001.parquet.part")
    FolderReplacement(tmp_path / "pool").recover()
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("kind", ["folder", "file", "link"])
def test_a_hidden_folder_of_others_is_refused(tmp_path: Path, kind: str) -> None:
    place = tmp_path / ".pool.sureenough"
    if kind == "file":
        place.write_text("mine")
    else:
        make(tmp_path / "mine" if kind == "link" else place, MARKER if kind == "link" else "older", text="mine")
    if kind == "link":
        place.symlink_to(tmp_path / "mine")
    before = files(tmp_path)
    for step in (FolderReplacement(tmp_path / "pool").recover, FolderReplacement(tmp_path / "pool").begin):
        with pytest.raises(TraceError, match=r"\.pool\.sureenough was not made by `sureenough record`"):
            step()
    assert files(tmp_path) == before


def test_files_of_others_in_the_hidden_folder_stay(tmp_path: Path) -> None:
    for place in ("", "new", "older"):
        make(hidden(tmp_path) / place, "part-00000.parquet", "notes.txt", text="mine")
        make(tmp_path / "pool", "part-00000.parquet")
        before = files(tmp_path)
        with pytest.raises(TraceError, match="is not a part of the pool; move it elsewhere"):
            FolderReplacement(tmp_path / "pool").recover()
        assert files(tmp_path) == before
        for file in (hidden(tmp_path) / place).iterdir():
            file.unlink()
        if place:
            (hidden(tmp_path) / place).rmdir()


def test_an_output_that_came_from_elsewhere_is_not_taken_for_the_new_one(tmp_path: Path) -> None:
    """Killed between the two renames, and then somebody copied a folder to the name."""
    for place in (tmp_path / "pool", hidden(tmp_path) / "new", hidden(tmp_path) / "older"):
        make(place, "part-00000.parquet", text=place.name)
    before = files(tmp_path)
    with pytest.raises(TraceError, match=r"older holds what was at .*pool before; move one of the two elsewhere"):
        FolderReplacement(tmp_path / "pool").recover()
    assert files(tmp_path) == before


def test_a_file_that_appears_during_the_recording_stays(tmp_path: Path) -> None:
    pool = make(tmp_path / "pool", "part-00000.parquet", text="older")
    replacement = FolderReplacement(pool)
    make(replacement.begin(), "part-00000.parquet", text="new")
    make(pool, "part-00007.parquet", text="mine")
    with pytest.raises(TraceError, match=r"part-00007\.parquet is not a part of the pool"):
        replacement.publish({"part-00000.parquet"})
    assert files(pool) == {"part-00000.parquet": "older", "part-00007.parquet": "mine"}
