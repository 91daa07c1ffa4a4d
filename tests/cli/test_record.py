"""`sureenough record` as a user types it: whole pools, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from sureenough.pools import Pool
from sureenough.pools.journal import encode
from tests.cli.recording import lines, record, rows, start_record
from tests.in_thread import until
from tests.processes import configured


def test_a_pool_that_replay_reads(url: str, dataset: Path, tmp_path: Path) -> None:
    pool = tmp_path / "pool.parquet"
    done = record(url, dataset, pool, "--window", "8")
    assert (done.returncode, done.stdout) == (0, f"{pool}: 6 questions, 48 paths.\n")
    assert not list(tmp_path.glob("*.journal"))
    read = Pool(pool)
    assert (read.info.model, read.info.window, read.info.k, read.info.sampling["temperature"]) == ("tiny", 8, 20, 0.6)
    first = next(iter(read))
    assert (first.id, first.gold, first.level, len(first.paths), first.paths[0].tokens) == ("q0", "1", 1, 8, 33)
    assert first.paths[0].text is not None
    again = record(url, dataset, pool)
    assert again.returncode == 2
    assert "exists and is complete" in again.stderr


@pytest.mark.parametrize("more", [[], ["--rows-per-part", "2"]])
def test_files_beside_the_output_are_the_users(more: list[str], url: str, dataset: Path, tmp_path: Path) -> None:
    mine = [tmp_path / f"pool.{ending}" for ending in ("part", "lock", "parquet.part", "parquet.lock")]
    for file in mine:
        file.write_text("mine")
    for output in ("pool", "pool.parquet"):
        done = record(url, dataset, tmp_path / output, *more)
        assert done.returncode == 0, done.stderr
    assert [file.read_text() for file in mine] == ["mine"] * 4
    assert {file.name for file in tmp_path.iterdir()} == {"pool", "pool.parquet", dataset.name, *[f.name for f in mine]}


def test_the_window_of_a_pool_follows_its_paths(url: str, dataset: Path, tmp_path: Path) -> None:
    pool = tmp_path / "pool.parquet"
    assert record(url, dataset, pool).returncode == 0
    assert Pool(pool).info.window == 16  # the paths have 33 tokens


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_other_forms_of_questions_with_other_names(url: str, tmp_path: Path, form: str) -> None:
    file, pool = tmp_path / f"sums.{form}", tmp_path / "pool.parquet"
    table = pa.table({"name": ["a", "b"], "problem": ["1 + 1?", "A or B?"], "truth": ["2", "B"]})
    pq.write_table(table, file) if form == "parquet" else pa_csv.write_csv(table, file)
    done = record(url, file, pool, "--map", "id=name,question=problem,gold=truth")
    assert done.returncode == 0, done.stderr
    assert [(q.id, q.gold, len(q.paths)) for q in Pool(pool)] == [("a", "2", 8), ("b", "B", 8)]
    wrong = record(url, file, tmp_path / "other.parquet", "--map", "gold=solution")
    assert wrong.returncode == 2
    assert "no column 'solution'; it has name, problem, truth" in wrong.stderr


def test_a_row_may_have_a_kind_of_its_own(url: str, tmp_path: Path) -> None:
    file, pool = tmp_path / "mixed.jsonl", tmp_path / "pool.parquet"
    file.write_text('{"id": "m", "question": "?"}\n{"id": "c", "question": "?", "kind": "choice"}\n')
    assert record(url, file, pool).returncode == 0
    answers = {q.id: {path.answer for path in q.paths} for q in Pool(pool)}
    assert answers == {"m": {"7", "8"}, "c": {None}}  # a boxed number is not a choice


def test_the_same_command_means_the_same_terms(url: str, dataset: Path, tmp_path: Path) -> None:
    pool = tmp_path / "pool.parquet"
    journal = tmp_path / "pool.parquet.journal"
    journal.write_bytes(encode({"terms": {"model": "other"}}) + encode({"question": "q0", "path": 0}))
    done = record(url, dataset, pool)
    assert done.returncode == 2
    assert "was begun with model 'other', not 'tiny' (other differences: dataset, kind, " in done.stderr
    assert "It holds 1 path: give the same command to go on" in done.stderr


def test_a_journal_without_paths_is_begun_anew(url: str, dataset: Path, tmp_path: Path) -> None:
    """It is left by a server that does not respond; another model may then be recorded, and a pool extended."""
    pool, journal = tmp_path / "pool.parquet", tmp_path / "pool.parquet.journal"
    failed = record("http://127.0.0.1:9/v1", dataset, pool, "--parallel", "1", "--model", "other")
    assert failed.returncode == 3, failed.stderr
    left = journal.read_bytes()
    done = record(url, dataset, pool, "--max-path-tokens", "800", "--limit", "3")
    assert (done.returncode, done.stdout) == (0, f"{pool}: 3 questions, 24 paths.\n"), done.stderr
    journal.write_bytes(left)
    more = record(url, dataset, pool, "--max-path-tokens", "800")
    assert (more.returncode, more.stdout) == (0, f"{pool}: 6 questions, 48 paths.\n"), more.stderr
    assert not journal.exists()


@pytest.mark.parametrize("option", ["--window", "--limit"])
def test_numbers_below_one(option: str, url: str, dataset: Path, tmp_path: Path) -> None:
    done = record(url, dataset, tmp_path / "pool.parquet", option, "0")
    assert (done.returncode, f"Invalid value for '{option}'" in done.stderr) == (2, True)


def test_14_22_a_negative_seed_is_refused(url: str, dataset: Path, tmp_path: Path) -> None:
    done = record(url, dataset, tmp_path / "pool.parquet", "--seed", "-5")
    assert (done.returncode, done.stderr) == (2, "sureenough: --seed is -5; it must be a whole number of at least 0\n")
    assert list(tmp_path.glob("pool*")) == []


def test_an_estimate_first(url: str, dataset: Path, tmp_path: Path) -> None:
    prices = configured(tmp_path, "price-in = 1000\nprice-out = 1000\n")
    done = record(url, dataset, tmp_path / "pool.parquet", "--dry-run", **prices)
    assert done.returncode == 0, done.stderr
    assert "6 questions, 48 paths. Estimated from 4 sampled paths:" in done.stdout
    assert "about 1,584 tokens (33 per path) and 432 prompt tokens" in done.stdout
    assert "about 2.02 at the given prices" in done.stdout
    assert list(tmp_path.glob("pool*")) == []


def test_an_estimate_of_what_is_missing(url: str, dataset: Path, tmp_path: Path) -> None:
    pool, journal = tmp_path / "pool.parquet", tmp_path / "pool.parquet.journal"
    assert record(url, dataset, pool).returncode == 0
    before = pool.read_bytes()
    done = record(url, dataset, pool, "--dry-run")
    assert (done.returncode, done.stdout) == (
        0,
        "6 questions, 48 paths, all of them recorded: there is nothing to sample.\n",
    )
    done = record(url, dataset, pool, "--paths", "10", "--dry-run")
    assert "6 questions, 60 paths, of which 12 are missing. Estimated from 4 sampled paths:" in done.stdout
    assert "about 396 tokens (33 per path) and 108 prompt tokens" in done.stdout
    assert (pool.read_bytes(), journal.exists()) == (before, False)
    pool.unlink()
    with start_record(url, dataset, pool) as running:
        until(lambda: lines(journal) >= 20)
        running.kill()
    kept = journal.read_bytes()
    missing = 48 - (lines(journal) - 1)  # the first line has the terms
    assert f"48 paths, of which {missing} are missing." in record(url, dataset, pool, "--dry-run").stdout
    assert journal.read_bytes() == kept
    for place in (tmp_path, Path("."), Path("/dev/null")):  # without a pool
        assert "6 questions, 48 paths. Estimated" in record(url, dataset, place, "--dry-run").stdout


@pytest.mark.parametrize(
    ("place", "says", "parts"),
    [
        ("none/pool.parquet", "No such file or directory; choose another place with -o", False),
        ("sums.jsonl/pool.parquet", "Not a directory", False),
        ("/sys/pool.parquet", "Permission denied", False),  # for root too
        ("", "is a folder; name the file to write", False),
        (".", "is a folder; name the file to write", False),
        ("/dev/fd/99", "/dev/fd/99 is not a place for a pool; name a file to write", False),
        ("pool\udcff.parquet", "is not a name in UTF-8; name another output", False),
        ("sums.jsonl", "is a file; with --rows-per-part, the output is a folder", True),
        ("dangling", "is a file; with --rows-per-part", True),
        (".", "which is not a part of the pool", True),
        ("pool", "was not made by `sureenough", True),
        ("s3:/bucket/pool", "is not on this machine", True),
    ],
)
def test_a_target_that_cannot_be_written(dataset: Path, tmp_path: Path, place: str, says: str, parts: bool) -> None:
    (tmp_path / "dangling").symlink_to(tmp_path / "nothing")
    (tmp_path / ".pool.sureenough").write_text("mine")
    output = Path(place) if place.startswith("s3:") or not place else tmp_path / place
    done = record("http://127.0.0.1:9/v1", dataset, output, *(["--rows-per-part", "10"] if parts else []))
    assert (done.returncode, done.stdout) == (2, "")
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert (tmp_path / ".pool.sureenough").read_text() == "mine"


def test_a_folder_of_parts_is_recorded_and_extended(url: str, dataset: Path, tmp_path: Path) -> None:
    """The same paths as in one file; the parts of a first, smaller recording are replaced whole."""
    whole, parts = tmp_path / "whole.parquet", tmp_path / "parts"
    assert record(url, dataset, whole).returncode == 0
    first = record(url, dataset, parts, "--rows-per-part", "10", "--limit", "3")
    assert (first.returncode, first.stdout) == (0, f"{parts}: 3 questions, 24 paths.\n")
    more = record(url, dataset, parts, "--rows-per-part", "10")
    assert more.returncode == 0, more.stderr
    assert sorted(file.name for file in parts.iterdir()) == [f"part-{n:05d}.parquet" for n in range(3)]
    assert rows(parts) == rows(whole)
    prompts = [part.info().more["prompts"] for part in Pool(parts).parts]
    assert [sorted(one) for one in prompts] == [["q0", "q1"], ["q2", "q3"], ["q4", "q5"]]
    assert sorted(file.name for file in tmp_path.iterdir()) == ["parts", "sums.jsonl", "whole.parquet"]


def test_several_servers_share_the_paths(url: str, dataset: Path, tmp_path: Path) -> None:
    """The second does not respond; the pool is that of one server, and the lines say who did what."""
    one, two = tmp_path / "one.parquet", tmp_path / "two.parquet"
    assert record(url, dataset, one).returncode == 0
    done = record(url, dataset, two, "--url", "http://127.0.0.1:9/v1")
    assert (done.returncode, done.stdout) == (0, f"{two}: 6 questions, 48 paths.\n"), done.stderr
    assert rows(one) == rows(two)
    assert Pool(two).info.engine == "openai"
    assert f"{url}: 48 paths (0 failed" in done.stderr
    assert "does not respond" in done.stderr
    twice = record(url, dataset, tmp_path / "three.parquet", "--url", f"{url}/")
    assert (twice.returncode, "is given twice" in twice.stderr) == (2, True)


def test_no_server_is_exit_code_3(dataset: Path, tmp_path: Path) -> None:
    done = record("http://127.0.0.1:9/v1", dataset, tmp_path / "pool.parquet", "--parallel", "1")
    assert done.returncode == 3
    assert "no response from" in done.stderr
