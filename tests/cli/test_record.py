"""`sureenough record` as a user types it: whole pools, what extends them, what is refused, and what survives a kill."""

from __future__ import annotations

import json
import signal
from dataclasses import replace
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from sureenough.errors import UsageError
from sureenough.pools import Pool, write_pool
from sureenough.pools.journal import encode
from sureenough.ray.cluster import check_address
from tests.cli.recording import Recording, lines, words, write_sums
from tests.engines.misbehaving import Manner, serving
from tests.in_thread import in_thread, until
from tests.processes import CLEAN, configured, refused, sureenough

NO_SERVER = "http://127.0.0.1:9/v1"
PARTS = ("--rows-per-part", "10")
MATH = "{question}\n\nPlease reason step by step, and put your final answer within \\boxed{{}}."
"""The default template of mathematics."""


def test_a_pool_that_replay_reads(sums: Recording) -> None:
    assert sums.run("--window", "8") == f"{sums.pool}: 6 questions, 48 paths.\n"
    assert not sums.journal.exists()
    read = Pool(sums.pool)
    assert (read.info.model, read.info.window, read.info.k, read.info.sampling["temperature"]) == ("tiny", 8, 20, 0.6)
    first = next(iter(read))
    assert (first.id, first.gold, first.level, len(first.paths), first.paths[0].tokens) == ("q0", "1", 1, 8, 33)
    assert first.paths[0].text is not None
    assert "exists and is complete" in sums.ends(2)


@pytest.mark.parametrize("more", [(), PARTS])
def test_files_beside_the_output_are_the_users(more: tuple[str, ...], sums: Recording, tmp_path: Path) -> None:
    names = ("pool.part", "pool.lock", "pool.parquet.part", "pool.parquet.lock", "pool.older", "pool.parquet.older")
    for name in names:
        (tmp_path / name).write_text("mine")
    for output in ("pool", "pool.parquet"):
        for limit in ("2", "3"):
            sums.to(output).run(*more, "--limit", limit)
        assert len(sums.to(output).rows()) == 24
    assert [(tmp_path / name).read_text() for name in names] == ["mine"] * len(names)
    assert {file.name for file in tmp_path.iterdir()} == {"pool", "pool.parquet", "sums.jsonl", *names}


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_other_forms_of_questions_with_other_names(sums: Recording, tmp_path: Path, form: str) -> None:
    file = tmp_path / f"sums.{form}"
    table = pa.table({"name": ["a", "b"], "problem": ["1 + 1?", "A or B?"], "truth": ["2", "B"]})
    pq.write_table(table, file) if form == "parquet" else pa_csv.write_csv(table, file)
    named = replace(sums, dataset=file)
    named.run("--map", "id=name,question=problem,gold=truth")
    assert [(q.id, q.gold, len(q.paths)) for q in Pool(sums.pool)] == [("a", "2", 8), ("b", "B", 8)]
    assert "no column 'solution'; it has name, problem, truth" in named.ends(2, "--map", "gold=solution")


def test_a_row_may_have_a_kind_of_its_own(sums: Recording) -> None:
    sums.dataset.write_text('{"id": "m", "question": "?"}\n{"id": "c", "question": "?", "kind": "choice"}\n')
    sums.run()
    assert Pool(sums.pool).info.window == 16  # the paths have 33 tokens
    answers = {q.id: {path.answer for path in q.paths} for q in Pool(sums.pool)}
    assert answers == {"m": {"7", "8"}, "c": {None}}  # a boxed number is not a choice


def test_the_same_command_means_the_same_terms(sums: Recording) -> None:
    sums.journal.write_bytes(encode({"terms": {"model": "other"}}) + encode({"question": "q0", "path": 0}))
    message = sums.ends(2)
    assert "was begun with model 'other', not 'tiny' (other differences: dataset, kind, " in message
    assert "It holds 1 path: give the same command to go on" in message


def test_a_journal_without_paths_is_begun_anew(sums: Recording) -> None:
    """It is left by a server that does not respond; another model may then be recorded, and a pool extended."""
    assert "no response from" in replace(sums, url=NO_SERVER).ends(3, "--parallel", "1", "--model", "other")
    left = sums.journal.read_bytes()
    assert sums.run("--max-path-tokens", "800", "--limit", "3") == f"{sums.pool}: 3 questions, 24 paths.\n"
    sums.journal.write_bytes(left)
    assert sums.run("--max-path-tokens", "800") == f"{sums.pool}: 6 questions, 48 paths.\n"
    assert not sums.journal.exists()


@pytest.mark.parametrize(
    ("option", "value", "says"),
    [
        ("--window", "0", "Invalid value for '--window'"),
        ("--limit", "0", "Invalid value for '--limit'"),
        ("--seed", "-5", "sureenough: --seed is -5; it must be a whole number of at least 0\n"),
    ],
)
def test_14_22_numbers_that_are_too_small(option: str, value: str, says: str, sums: Recording, tmp_path: Path) -> None:
    assert says in sums.ends(2, option, value)
    assert list(tmp_path.glob("pool*")) == []


def test_an_estimate_first(sums: Recording, tmp_path: Path) -> None:
    text = sums.run("--dry-run", **configured(tmp_path, "price-in = 1000\nprice-out = 1000\n"))
    assert "6 questions, 48 paths. Estimated from 4 sampled paths:" in text
    assert "about 1,584 tokens (33 per path) and 432 prompt tokens" in text
    assert "about 2.02 at the given prices" in text
    assert list(tmp_path.glob("pool*")) == []
    for place in (tmp_path, Path("."), Path("/dev/null")):  # without a pool
        assert "6 questions, 48 paths. Estimated" in replace(sums, pool=place).run("--dry-run")


def test_an_estimate_of_what_is_missing(sums: Recording) -> None:
    sums.run()
    before = sums.pool.read_bytes()
    assert sums.run("--dry-run") == "6 questions, 48 paths, all of them recorded: there is nothing to sample.\n"
    text = sums.run("--paths", "10", "--dry-run")
    assert "6 questions, 60 paths, of which 12 are missing. Estimated from 4 sampled paths:" in text
    assert "about 396 tokens (33 per path) and 108 prompt tokens" in text
    assert (sums.pool.read_bytes(), sums.journal.exists()) == (before, False)
    sums.pool.unlink()
    with sums.start() as running:
        until(lambda: lines(sums.journal) >= 20)
        running.kill()
    kept = sums.journal.read_bytes()
    missing = 48 - (lines(sums.journal) - 1)  # the first line has the terms
    assert f"48 paths, of which {missing} are missing." in sums.run("--dry-run")
    assert sums.journal.read_bytes() == kept


@pytest.mark.parametrize(
    ("place", "says", "more"),
    [
        ("none/pool.parquet", "No such file or directory; choose another place with -o", ()),
        ("sums.jsonl/pool.parquet", "Not a directory", ()),
        ("/sys/pool.parquet", "Permission denied", ()),  # for root too
        ("", "is a folder; name the file to write", ()),
        (".", "is a folder; name the file to write", ()),
        ("/dev/fd/99", "/dev/fd/99 is not a place for a pool; name a file to write", ()),
        ("pool\udcff.parquet", "is not a name in UTF-8; name another output", ()),
        ("sums.jsonl", "is a file; with --rows-per-part, the output is a folder", PARTS),
        ("dangling", "is a file; with --rows-per-part", PARTS),
        (".", "which is not a part of the pool", PARTS),
        ("empty", "is an empty folder; name one that does not exist yet", PARTS),
        ("pool", "was not made by `sureenough", PARTS),
        ("s3:/bucket/pool", "is not on this machine", PARTS),
    ],
)
def test_a_target_that_cannot_be_written(
    sums: Recording, tmp_path: Path, place: str, says: str, more: tuple[str, ...]
) -> None:
    (tmp_path / "dangling").symlink_to(tmp_path / "nothing")
    (tmp_path / ".pool.sureenough").write_text("mine")
    (tmp_path / "empty").mkdir()
    output = Path(place) if place.startswith("s3:") or not place else tmp_path / place
    assert says in replace(sums, url=NO_SERVER, pool=output).ends(2, *more)
    assert (tmp_path / ".pool.sureenough").read_text() == "mine"


def test_several_servers_share_the_paths(sums: Recording) -> None:
    """The second does not respond; the pool is that of one server, and the lines say who did what."""
    two = sums.to("two.parquet")
    sums.run()
    message = two.ends(0, "--url", NO_SERVER)
    assert sums.rows() == two.rows()
    assert Pool(two.pool).info.engine == "openai"
    assert f"{sums.url}: 48 paths (0 failed" in message
    assert "does not respond" in message
    assert "is given twice" in sums.to("three.parquet").ends(2, "--url", f"{sums.url}/")


# A finished pool is extended, if it is the same recording.


def test_a_finished_pool_is_extended_by_paths_and_by_questions(sums: Recording) -> None:
    with in_thread(serving(Manner(tokens=8))) as server:
        sums = replace(sums, url=server.url)
        sums.run("--paths", "3")
        before = sums.rows()
        assert sums.run() == f"{sums.pool}: 6 questions, 48 paths.\n"
        assert len(server.requests) == 48, "no path is paid for twice"
        assert all(row in sums.rows() for row in before)
        write_sums(sums.dataset, 7)
        sums.run()
        assert len(server.requests) == 56
        sums.to("whole.parquet").run()
        assert sums.rows() == sums.to("whole.parquet").rows()
        assert not sums.journal.exists()
        # A part of the questions: the others stay in the pool.
        sums.run("--limit", "2", "--paths", "9")
        assert [(q.id, len(q.paths)) for q in Pool(sums.pool)][-2:] == [("q0", 9), ("q1", 9)]
        assert len(sums.rows()) == 58
        assert "exists and is complete; more --paths" in sums.ends(2)


@pytest.mark.parametrize("enough", [0, 49, 60])
def test_an_extension_that_is_killed_goes_on(sums: Recording, tmp_path: Path, enough: int) -> None:
    sums.to("whole.parquet").run("--paths", "16")
    sums.run()
    before = sums.pool.read_bytes()

    def reached() -> bool:
        return lines(sums.journal) > enough if enough else any(tmp_path.glob(".*.sureenough-part"))

    with sums.start("--paths", "16", "--parallel", "2") as running:
        until(lambda: running.poll() is not None or reached(), pause=0)
        running.kill()
    assert sums.pool.read_bytes() == before or running.returncode == 0
    if sums.pool.read_bytes() == before:
        sums.run("--paths", "16")
    assert sums.rows() == sums.to("whole.parquet").rows()
    assert not sums.journal.exists()


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (("--temperature", "1.5"), "it was recorded with temperature 0.6, not 1.5; name another output"),
        (("--seed", "7"), "it was recorded with seed 0, not 7"),
        (("--template", "Really: {question}"), "not 'Really: {question}'; name another output"),
        (("--kind", "choice"), "it was recorded with kind 'math', not 'choice'"),
        (("--kind", "choice", "--template", MATH), "it was recorded with kind 'math', not 'choice'"),
    ],
)
def test_only_the_same_recording_is_extended(sums: Recording, more: tuple[str, ...], says: str) -> None:
    sums.run("--paths", "1")
    before = sums.pool.read_bytes()
    assert says in sums.ends(2, *more)
    assert (sums.pool.read_bytes(), sums.journal.exists()) == (before, False)


def test_a_pool_that_kept_no_terms_is_extended_under_its_own_sampling_only(sums: Recording) -> None:
    sums.run("--paths", "1")
    recorded = pq.read_table(sums.pool)
    said = json.loads(recorded.schema.metadata[b"sureenough"])
    del said["recorded"]
    pq.write_table(recorded.replace_schema_metadata({b"sureenough": json.dumps(said).encode()}), sums.pool)
    assert "it was recorded with max_tokens None, not 64" in sums.ends(2, "--max-path-tokens", "64")


def test_questions_that_changed_are_not_extended(sums: Recording) -> None:
    sums.run("--paths", "1")
    text = sums.dataset.read_text()
    sums.dataset.write_text(text.replace("0 + 1?", "0 plus 1?"))
    assert "question 'q0' has another text in it" in sums.ends(2)
    sums.dataset.write_text(text.replace('"gold": "1"', '"gold": "11"'))
    assert "question 'q0' has another gold answer in it" in sums.ends(2)


@pytest.mark.parametrize("more", [(), PARTS])
def test_the_texts_of_other_questions_stay(sums: Recording, more: tuple[str, ...]) -> None:
    sums.to("pool").run(*more, "--limit", "3")
    sums.to("pool").run(*more, "--limit", "1", "--paths", "9")
    texts = {question.id: question.text for question in Pool(sums.to("pool").pool)}
    assert texts == {f"q{n}": f"{n} + 1?" for n in range(3)}


# A folder of parts.


def test_a_folder_of_parts_is_recorded_and_extended(sums: Recording, tmp_path: Path) -> None:
    """The same paths as in one file; the parts of a first, smaller recording are replaced whole."""
    parts = sums.to("parts")
    sums.run()
    assert parts.run(*PARTS, "--limit", "3") == f"{parts.pool}: 3 questions, 24 paths.\n"
    parts.run(*PARTS)
    assert sorted(file.name for file in parts.pool.iterdir()) == [f"part-{n:05d}.parquet" for n in range(3)]
    assert parts.rows() == sums.rows()
    prompts = [part.info().more["prompts"] for part in Pool(parts.pool).parts]
    assert [sorted(one) for one in prompts] == [["q0", "q1"], ["q2", "q3"], ["q4", "q5"]]
    assert sorted(file.name for file in tmp_path.iterdir()) == ["parts", "pool.parquet", "sums.jsonl"]


@pytest.mark.parametrize("name", ["README.txt", "_SUCCESS", ".notes", "part-3.parquet.journal", "link.parquet"])
def test_a_folder_that_holds_other_files_is_refused_before_sampling(sums: Recording, tmp_path: Path, name: str) -> None:
    with in_thread(serving(Manner(tokens=8))) as server:
        parts = replace(sums.to("pool"), url=server.url)
        parts.run(*PARTS, "--limit", "1")
        other = parts.pool / name
        if name == "link.parquet":
            other.symlink_to(parts.pool / "part-00000.parquet")
        else:
            other.write_text("mine")
        requests = len(server.requests)
        assert f"holds {name}, which is not a part of the pool" in parts.ends(2, *PARTS)
        assert len(server.requests) == requests
    assert sorted(file.name for file in parts.pool.iterdir()) == sorted([name, "part-00000.parquet"])
    assert not list(tmp_path.glob("pool.*"))


def test_a_link_to_a_folder_stays_a_link(sums: Recording, tmp_path: Path) -> None:
    pool, link = tmp_path / "disk" / "pool", sums.to("link")
    pool.parent.mkdir()
    replace(sums, pool=pool).run(*PARTS, "--limit", "1")
    link.pool.symlink_to(pool)
    assert link.run(*PARTS, "--limit", "2") == f"{pool}: 2 questions, 16 paths.\n"
    assert (link.pool.is_symlink(), len(link.rows())) == (True, 16)
    assert [file.name for file in pool.parent.iterdir()] == ["pool"]


def test_a_folder_that_cannot_be_written_names_the_journal(sums: Recording) -> None:
    """The name with the ending of the hidden folder is too long for the file system, that of the journal is not."""
    parts = sums.to("p" * 245)
    assert f"All paths are safe in {parts.journal}" in parts.ends(2, *PARTS, "--limit", "1")
    assert parts.journal.exists()


def test_a_part_that_was_added_after_a_recording_was_killed(sums: Recording) -> None:
    """The journal lacks its paths, so replacing the folder would lose them."""
    parts, other = sums.to("pool"), sums.to("other")
    parts.run(*PARTS, "--limit", "1")
    replace(parts, url=NO_SERVER).ends(3, *PARTS, "--limit", "2", "--parallel", "1")
    write_sums(sums.dataset, 7)
    other.run(*PARTS)
    part = next(file for file in other.pool.iterdir() if "q6" in pq.read_table(file)["question"].to_pylist())
    added = [question for question in Pool(part) if question.id == "q6"]
    optional = ("seed", "tokens", "question_text", "text")
    write_pool(parts.pool / "added.parquet", added, Pool(part).info, optional=optional)
    assert "it holds paths that" in parts.ends(2, *PARTS, "--limit", "2")
    assert {question.id for question in Pool(parts.pool)} == {"q0", "q6"}


# A recording that is killed, interrupted or out of room goes on with what it has.


def test_killed_at_any_moment_it_goes_on(sums: Recording) -> None:
    sums.to("whole.parquet").run()
    for enough in (3, 11, 30):
        with sums.start("--parallel", "2") as running:
            until(partial(lambda wanted: running.poll() is not None or lines(sums.journal) > wanted, enough))
            running.kill()
        with open(sums.journal, "ab") as torn:  # a line that was being written
            torn.write(b'{"question": "q1", "pa')
    sums.run()
    assert sums.rows() == sums.to("whole.parquet").rows()


def test_fewer_paths_than_an_earlier_command_wanted(sums: Recording) -> None:
    sums.run()
    whole = sums.rows()
    sums.pool.unlink()
    with sums.start() as running:
        until(lambda: lines(sums.journal) >= 20)
        running.kill()
    assert sums.run("--paths", "2") == f"{sums.pool}: 6 questions, 12 paths.\n"
    assert [row for row in sums.rows() if (row[1] or 0) < 2] == [row for row in whole if (row[1] or 0) < 2]


@pytest.mark.parametrize(
    ("room", "more", "says"),
    [
        (4000, (), "paths are safe in it; make room and give the same command again"),
        (3000, ("--limit", "1", "--paths", "2"), "All paths are safe in"),  # the pool is larger than its journal
    ],
)
def test_a_full_disk_leaves_what_was_written(
    room: int, more: tuple[str, ...], says: str, sums: Recording, tmp_path: Path
) -> None:
    full = sureenough(*words(sums.url, sums.dataset, sums.pool, *more), env=CLEAN, largest_file=room)
    assert full.returncode == 2, full
    assert "File too large" in full.stderr
    assert says in full.stderr
    assert not any(word in full.stderr for word in ("Traceback", "errno"))
    assert sorted(file.name for file in tmp_path.iterdir()) == ["pool.parquet.journal", "sums.jsonl"]
    safe = sums.journal.read_text().splitlines()
    assert len(safe) > 2
    assert all(json.loads(line) for line in safe)
    sums.run()
    assert len(sums.rows()) == 48


def test_a_server_that_refuses_half_way(sums: Recording) -> None:
    with in_thread(serving(Manner())) as server:
        half_way = replace(sums, url=server.url)
        server.manner = lambda seed, again: Manner(status=200 if len(server.requests) <= 20 else 401)
        message = half_way.ends(3, "--parallel", "1")
        assert message.endswith(f"What was done is kept in {sums.journal}; the same command goes on\n")
        assert "What was done" not in half_way.to("other.parquet").ends(3), "nothing was"
        server.manner = lambda seed, again: Manner()
        half_way.run()
    assert len(sums.rows()) == 48


def test_ctrl_c_leaves_a_pool_that_can_be_read_and_gone_on_with(sums: Recording) -> None:
    sums.to("whole.parquet").run()
    whole = sums.to("whole.parquet").rows()
    with sums.start("--parallel", "2") as running:
        until(lambda: running.poll() is not None or lines(sums.journal) > 11)
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=30)
    assert (running.returncode, err) == (130, "")
    assert "paths are missing. The same command continues" in out
    some = sums.rows()
    assert 11 <= len(some) < 48
    assert all(row in whole for row in some)
    sums.run()
    assert sums.rows() == whole
    assert not sums.journal.exists()


def test_ctrl_c_before_the_first_path_promises_no_pool(sums: Recording) -> None:
    with in_thread(serving(Manner(stall_after=2))) as server, replace(sums, url=server.url).start() as running:
        until(lambda: running.poll() is not None or bool(server.requests))
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=30)
    assert (running.returncode, err) == (130, "")
    assert out == "48 paths are missing. The same command continues.\n"
    assert not sums.pool.exists()


def test_14_10_two_recordings_of_one_output(sums: Recording, tmp_path: Path) -> None:
    with sums.start("--parallel", "1") as first:
        until(sums.journal.exists)
        assert f"{sums.pool} is being written by process {first.pid} on " in sums.ends(2)
        assert first.wait(60) == 0
    assert Pool(sums.pool).rows == 48
    assert sorted(file.name for file in tmp_path.iterdir()) == ["pool.parquet", "sums.jsonl"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["--ray", "auto", "--url", "http://me:hunter2@127.0.0.1:9/v1", "--model", "m"],
            "put the URL into SUREENOUGH_URL",
        ),
        (["--ray", "auto", "--dry-run"], "--dry-run samples on this machine: leave --ray out"),
    ],
)
@pytest.mark.parametrize("verb", ["record", "bench"])
def test_refused_without_a_cluster(verb: str, words: list[str], message: str, tmp_path: Path) -> None:
    dataset = str(write_sums(tmp_path / "sums.jsonl", 1))
    place = ["record", dataset] if verb == "record" else ["bench", "main", "--dataset", dataset]
    text = refused(*place, "-o", tmp_path / "out", *words, env=CLEAN)
    assert message in text
    assert "hunter2" not in text


def test_an_address_with_a_password_is_refused_without_it() -> None:
    with pytest.raises(UsageError, match=r"head:6379 is not the address of a Ray cluster") as refusal:
        check_address("me:hunter2@head:6379")
    assert "hunter2" not in str(refusal.value)
