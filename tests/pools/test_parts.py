"""Pools in parts: a folder of files is read as one pool, at a URI too; parts that do not belong together are named."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import sureenough as se
from sureenough.bench.pipeline import Source
from sureenough.cli import app
from sureenough.cli.replay import find_question
from sureenough.errors import SureEnoughError, TraceError
from sureenough.pools import Pool, PoolInfo, Question, RecordedPath, is_pool, write_pool
from tests.bench.making import make_pool

INFO = PoolInfo(dataset="numbers", model="none", window=8)


def question(name: str, paths: int = 3) -> Question:
    return Question(name, "1", 1, [RecordedPath(str(i % 2), [0.5] * 4, [9.0 + i] * 4) for i in range(paths)])


def write_parts(folder: Path, *names: str, **changes: Any) -> Path:
    """Part after part, each with the questions whose names are its letters."""
    folder.mkdir(exist_ok=True)
    for number, letters in enumerate(names):
        info = replace(INFO, **changes) if number == len(names) - 1 else INFO
        write_pool(folder / f"part-{number:05d}.parquet", map(question, letters), info)
    return folder


@pytest.fixture(scope="module")
def split(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The same paths as one file and as five parts."""
    folder = tmp_path_factory.mktemp("pools")
    whole = make_pool(folder, questions=20).pool
    pool = Pool(whole)
    questions = list(pool)
    parts = folder / "parts"
    parts.mkdir()
    for number in range(5):
        mine = questions[4 * number : 4 * number + 4]
        write_pool(parts / f"part-{number}.parquet", mine, pool.info)
    (parts / "_SUCCESS").touch()
    (parts / "part-9.parquet.journal").write_text("being recorded")
    return whole, parts


def paths_of(pool: Pool) -> list[tuple[str, int | None, str | None, list[float]]]:
    return [(one.id, path.number, path.answer, list(path.conf)) for one in pool for path in one.paths]


def test_a_folder_of_parts_is_read_as_one_file_would_be(split: tuple[Path, Path]) -> None:
    whole, parts = map(Pool, split)
    assert (parts.rows, parts.tokens, parts.info, parts.window()) == (whole.rows, whole.tokens, whole.info, 8)
    assert parts.starts() == whole.starts()
    assert paths_of(parts) == paths_of(whole)
    starts = parts.starts()
    middle = [one.id for one in parts.part(starts[3], starts[9])]
    assert middle == [f"q{i}" for i in range(3, 9)]
    assert parts.digest() == Pool(split[1]).digest() != whole.digest()


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.usefixtures("preloaded_workers")
def test_strategies_compare_alike_on_parts(split: tuple[Path, Path], jobs: int) -> None:
    one, two = (se.compare(pool, ["sc", "ddc", "sure"], repeats=2, jobs=jobs) for pool in split)
    assert (one.rows, one.recommendation) == (two.rows, two.recommendation)
    assert two.pool == str(split[1])


@pytest.mark.parametrize("as_path", [True, False])
def test_a_pool_at_a_uri(split: tuple[Path, Path], as_path: bool) -> None:
    for place in split:
        uri = place.as_uri()
        pool = Pool(Path(uri) if as_path else uri)  # the command line gives paths, in which // is /
        assert paths_of(pool) == paths_of(Pool(place))
        assert pool.name == uri
        assert pool.digest() == Pool(place).digest()


def test_commands_take_folders_and_uris(split: tuple[Path, Path]) -> None:
    run = CliRunner()
    for pool in (str(split[1]), split[1].as_uri()):
        replayed = run.invoke(app, ["replay", pool, "-s", "sc ac", "--repeats", "1", "--csv"])
        assert replayed.exit_code == 0, replayed.output
        assert pool in replayed.stdout
        explained = run.invoke(app, ["replay", pool, "-q", "q7", "-s", "sc"])
        assert "Question q7" in explained.stdout, explained.output
    assert is_pool(split[1])
    assert find_question(split[1], "q19")[1].part == 4


def test_bench_takes_a_folder(split: tuple[Path, Path], tmp_path: Path) -> None:
    words = ["bench", "main", "--pool", str(split[1]), "-s", "sc ac", "--repeats", "1", "-o", str(tmp_path / "run")]
    done = CliRunner().invoke(app, [*words, "--jobs", "1"])
    assert done.exit_code == 0, done.output
    assert Source.of(split[1]).digest()[:16] in (tmp_path / "run" / "plan.json").read_text()
    assert not is_pool(tmp_path / "run")


# -- parts that are not one pool


def test_folders_without_paths(tmp_path: Path) -> None:
    for place in (tmp_path, tmp_path.as_uri()):
        with pytest.raises(TraceError, match=r"is a folder without \.parquet files; name a pool"):
            Pool(place)
    write_parts(tmp_path, "", "")
    with pytest.raises(TraceError, match="holds no paths"):
        Pool(tmp_path)
    assert Pool(write_parts(tmp_path, "", "a", "")).rows == 3


def test_a_damaged_part_is_named(tmp_path: Path) -> None:
    write_parts(tmp_path, "ab", "cd")
    part = tmp_path / "part-00001.parquet"
    content = part.read_bytes()
    part.write_bytes(content[:-20])
    with pytest.raises(TraceError, match=r"part-00001\.parquet is not a whole Parquet file"):
        Pool(tmp_path)
    part.write_bytes(content[:10] + bytes(300) + content[310:])
    with pytest.raises(TraceError, match=r"part-00001\.parquet"):
        list(Pool(tmp_path))


def test_a_bad_row_is_numbered_within_its_part(tmp_path: Path) -> None:
    write_parts(tmp_path, "ab", "cd")
    table = pq.read_table(tmp_path / "part-00001.parquet")
    place = table.schema.get_field_index("question")
    broken = table.set_column(place, table.schema.field(place), pa.array(["c", "c", "c", "d", None, "d"]))
    pq.write_table(broken, tmp_path / "part-00001.parquet")
    with pytest.raises(TraceError, match=r"part-00001\.parquet, row 4: it has no question"):
        list(Pool(tmp_path))
    pool = Pool(tmp_path, skip_damaged=True)
    assert [len(one.paths) for one in pool] == [3, 3, 3, 2]
    assert pool.damaged == 1


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("parts", [("ab", "bc"), ("abc", "da")])
@pytest.mark.usefixtures("preloaded_workers")
def test_a_question_in_two_parts(tmp_path: Path, parts: tuple[str, str], jobs: int) -> None:
    write_parts(tmp_path, *parts)
    with pytest.raises(TraceError, match=r"question '[ab]' is in .*part-00000\.parquet and in .*part-00001\.parquet"):
        se.compare(tmp_path, ["sc"], repeats=1, jobs=jobs)


def test_parts_of_other_columns(tmp_path: Path) -> None:
    write_parts(tmp_path, "ab")
    write_pool(tmp_path / "part-1.parquet", [question("c")], INFO, optional=["seed"])
    with pytest.raises(TraceError, match=r"part-1\.parquet has column seed 'int64', .*part-00000\.parquet has 'none'"):
        Pool(tmp_path)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [({"model": "other"}, "model 'other'"), ({"kind": "choice"}, "kind 'choice'"), ({"k": 5}, "k 5")],
)
def test_parts_that_were_recorded_otherwise(tmp_path: Path, changes: dict[str, Any], problem: str) -> None:
    write_parts(tmp_path, "ab", "cd", **changes)
    with pytest.raises(TraceError, match=rf"part-00001\.parquet has {problem}, .*two folders"):
        Pool(tmp_path)


def test_parts_agree_by_value(tmp_path: Path) -> None:
    for name, sampling in (("a", {"temperature": 1, "top_p": 0.5}), ("b", {"top_p": 0.5, "temperature": 1.0})):
        write_pool(tmp_path / f"{name}.parquet", [question(name)], replace(INFO, sampling=sampling))
    assert len(list(Pool(tmp_path))) == 2


def test_parts_may_come_from_several_files_of_questions(tmp_path: Path) -> None:
    """Many may record one pool, each a part of its own; the pool then has the folder's name."""
    pool = Pool(write_parts(tmp_path / "both", "ab", "cd", dataset="more numbers", window=4))
    assert (pool.info.dataset, pool.info.window, pool.window()) == (None, None, 16)
    assert Source.of(tmp_path / "both").dataset == "both"


@pytest.mark.parametrize(
    ("uri", "problem"),
    [
        ("nosuch://bucket/pool", "nosuch://bucket/pool cannot be opened"),
        ("file:///no/such/pool", "no such file: file:///no/such/pool"),
        ("s3://user:hunter2@bucket/pool", "leave user and password out"),
    ],
)
def test_addresses_that_cannot_be_read(uri: str, problem: str) -> None:
    for place in (uri, Path(uri)):
        with pytest.raises(SureEnoughError) as raised:
            Pool(place)
        assert problem in str(raised.value)
        assert "hunter2" not in str(raised.value)
