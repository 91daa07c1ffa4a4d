"""`sureenough rank` that is killed, interrupted or loses its server goes on with the replies that it has."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import AsyncGenerator, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from sureenough.core.events import Token
from sureenough.drivers.difficulty import DifficultyRanking, rank_difficulty
from sureenough.drivers.difficulty_journal import Reply, ReplyJournal, question_terms
from sureenough.engines.base import Engine
from sureenough.engines.requests import Chunk, Prompt
from sureenough.errors import EngineError, EngineUnavailable, TraceError, UsageError
from sureenough.pools.json_lines import encode
from tests.bench.typed import environ, questions
from tests.cli.recording import lines
from tests.engines.misbehaving import Manner, Server, serving
from tests.in_thread import in_thread, until
from tests.processes import start, sureenough

BATCHES = 30
ORDERS = Manner(tokens=6, answer="P2, P1", delay=0.002)


@pytest.fixture
def server() -> Iterator[Server]:
    with in_thread(serving(ORDERS)) as running:
        yield running


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    return questions(tmp_path / "sums.jsonl", 12)


def words(server: Server, dataset: Path, output: Path, *more: str) -> list[str]:
    given = ["rank", str(dataset), "--url", server.url, "--model", "org/tiny", "--batch", "2", "-o", str(output)]
    return [*given, *more]


def test_killed_at_any_moment_it_goes_on(server: Server, dataset: Path, tmp_path: Path) -> None:
    whole, ranking, journal = (tmp_path / name for name in ("whole", "ranking", "ranking.journal"))
    assert sureenough(*words(server, dataset, whole), env=environ()).returncode == 0
    assert len(server.requests) == BATCHES
    for enough in (3, 8, 14):
        with start(*words(server, dataset, ranking, "--parallel", "2"), env=environ()) as running:
            until(partial(lambda wanted: running.poll() is not None or lines(journal) > wanted, enough))
            running.kill()
        with open(journal, "ab") as torn:  # a line that was being written
            torn.write(b'{"batch": 29, "ord')
    kept, before = lines(journal) - 1, len(server.requests)
    assert 14 <= kept < BATCHES
    done = sureenough(*words(server, dataset, ranking), env=environ())
    assert done.returncode == 0, done.stderr
    assert len(server.requests) - before == BATCHES - kept, "no reply is paid for twice"
    assert ranking.read_text() == whole.read_text()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["ranking", "sums.jsonl", "whole"]


def test_ctrl_c_says_that_the_same_command_continues(server: Server, dataset: Path, tmp_path: Path) -> None:
    ranking, journal = tmp_path / "ranking", tmp_path / "ranking.journal"
    with start(*words(server, dataset, ranking, "--parallel", "1"), env=environ()) as running:
        until(lambda: running.poll() is not None or lines(journal) > 5)
        second = sureenough(*words(server, dataset, ranking), env=environ())
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=30)
    assert second.returncode == 2
    assert "is being written by process" in second.stderr
    assert (running.returncode, out) == (130, "")
    assert err == f"Interrupted. The replies so far are in {journal}; the same command continues.\n"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["ranking.journal", "sums.jsonl"]
    kept, before = lines(journal) - 1, len(server.requests)
    assert sureenough(*words(server, dataset, ranking), env=environ()).returncode == 0
    assert len(server.requests) - before == BATCHES - kept < BATCHES


def test_a_server_that_fails(dataset: Path, tmp_path: Path) -> None:
    ranking, journal = tmp_path / "ranking", tmp_path / "ranking.journal"
    refusing = Manner(status=401)
    with in_thread(serving(ORDERS)) as server:
        server.manner = lambda seed, again: ORDERS if len(server.requests) <= 7 else refusing
        failed = sureenough(*words(server, dataset, ranking, "--parallel", "1"), env=environ())
        assert failed.returncode == 3
        assert "answered 401" in failed.stderr
        assert failed.stderr.endswith(f"What was done is kept in {journal}; the same command goes on\n")
        assert lines(journal) == 8
        server.manner = lambda seed, again: ORDERS
        assert sureenough(*words(server, dataset, ranking), env=environ()).returncode == 0
        assert len(server.requests) == BATCHES + 1
        server.manner = lambda seed, again: refusing
        at_once = sureenough(*words(server, dataset, tmp_path / "other"), env=environ())
    assert "What was done" not in at_once.stderr, "nothing was"
    assert json.loads(ranking.read_text())["requests"] == BATCHES


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        (["--model", "org/large"], "was begun with model 'org/tiny', not 'org/large'"),
        (["--seed", "1"], "was begun with seed 0, not 1"),
        (["--batch", "3"], "was begun with batch 2, not 3"),
        (["--rounds", "6"], "was begun with rounds 5, not 6"),
        (["--temperature", "0"], "was begun with temperature 0.6, not 0.0"),
        (["--limit", "11"], "was begun with questions '12 (checksum "),
    ],
)
def test_another_command_is_refused(dataset: Path, tmp_path: Path, changed: list[str], says: str) -> None:
    ranking, journal = tmp_path / "ranking", tmp_path / "ranking.journal"
    with in_thread(serving(ORDERS)) as server:
        server.manner = lambda seed, again: ORDERS if len(server.requests) <= 1 else Manner(status=400)
        assert sureenough(*words(server, dataset, ranking, "--parallel", "1"), env=environ()).returncode == 3
        before = journal.read_bytes()
        refused = sureenough(*words(server, dataset, ranking, *changed), env=environ())
        assert len(server.requests) == 2
    assert (refused.returncode, refused.stdout) == (2, "")
    assert f"{journal} {says}" in refused.stderr
    assert "It holds 1 reply: give the same command to go on, or name another output with -o" in refused.stderr
    assert journal.read_bytes() == before


def test_other_questions_have_other_terms() -> None:
    pairs = [(f"q{n}", f"{n} + 1?") for n in range(3)]
    terms = {question_terms(pairs), question_terms(pairs[::-1]), question_terms([*pairs[:2], ("q2", "2 + 2?")])}
    assert len(terms) == 3
    assert question_terms(list(pairs)) in terms


# -- the journal itself

TERMS = {"model": "m"}
PAIRS = [(f"q{n}", f"difficulty {n}") for n in range(12)]


class Orders(Engine):
    """Replies with an order; the requests of these numbers fail instead."""

    def __init__(self, errors: dict[int, Exception], text: str = "P1, P2") -> None:
        self.errors, self.text, self.requests = errors, text, 0

    async def stream(self, prompt: Prompt, *, seed: int) -> AsyncGenerator[Sequence[Token], None]:
        self.requests += 1
        yield Chunk(unread=5, text=self.text)
        if self.requests in self.errors:
            raise self.errors[self.requests]
        yield Chunk(finish="stop", prompt_tokens=7)


def rank(engine: Engine, file: Path) -> DifficultyRanking:
    with ReplyJournal(file, TERMS) as journal:
        return asyncio.run(rank_difficulty(PAIRS, engine, batch=2, rounds=1, parallel=1, journal=journal))


def test_a_ranking_in_pieces_is_the_ranking_in_one_go(tmp_path: Path) -> None:
    whole = rank(Orders({}), tmp_path / "whole")
    for _ in range(5):
        with pytest.raises(EngineUnavailable, match="gone"):
            rank(Orders({2: EngineUnavailable("gone")}), tmp_path / "pieces")
    last = Orders({})
    assert rank(last, tmp_path / "pieces") == whole
    assert last.requests == 1
    nothing = Orders({})
    assert rank(nothing, tmp_path / "pieces") == whole
    assert nothing.requests == 0


def test_a_reply_that_was_lost_is_not_kept(tmp_path: Path) -> None:
    engine = Orders({2: EngineError("broke off"), 4: EngineUnavailable("gone")})
    with pytest.raises(EngineUnavailable):
        rank(engine, tmp_path / "journal")
    again = Orders({})
    assert rank(again, tmp_path / "journal").unreadable == 0
    assert again.requests == 4


def test_a_journal_without_an_order_is_removed(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="none of the 6 replies is an order"):
        rank(Orders({}, text="I cannot"), tmp_path / "journal")
    assert list(tmp_path.iterdir()) == []


GOOD: dict[str, Any] = {"batch": 1, "order": [1, 0], "tokens": 5, "prompt_tokens": 7}


@pytest.mark.parametrize(
    "wrong",
    [{"batch": 6}, {"batch": 6, "order": None}, {"tokens": 10**30}, {"batch": -1}, {"batch": True},
     {"batch": None}, {"order": [0, 0]}, {"order": [0]}, {"order": "10"},
     {"order": [1, None]}, {"tokens": -1}, {"tokens": 0.5}, {"prompt_tokens": "7"}, {"prompt_tokens": None}],
)  # fmt: skip
def test_a_line_that_is_not_a_reply(tmp_path: Path, wrong: dict[str, Any]) -> None:
    file, engine = tmp_path / "journal", Orders({})
    file.write_bytes(encode({"terms": TERMS}) + encode(GOOD))
    with ReplyJournal(file, TERMS) as journal:
        assert journal.replies([2] * 6) == {1: Reply([1, 0], 5, 7)}
    file.write_bytes(encode({"terms": TERMS}) + encode(GOOD | wrong))
    with pytest.raises(TraceError, match="the line is not a reply; remove it to keep the rest"):
        rank(engine, file)
    assert engine.requests == 0


def test_a_full_disk_leaves_what_was_written(server: Server, dataset: Path, tmp_path: Path) -> None:
    ranking = tmp_path / "ranking"
    full = sureenough(*words(server, dataset, ranking, "--parallel", "1"), env=environ(), largest_file=1500)
    assert full.returncode == 2, full
    assert "replies are safe in it; make room and give the same command again" in full.stderr
    kept, before = lines(tmp_path / "ranking.journal") - 1, len(server.requests)
    assert kept > 2
    assert sureenough(*words(server, dataset, ranking), env=environ()).returncode == 0
    assert len(server.requests) - before == BATCHES - kept


def test_an_output_that_is_a_stream_has_no_journal(server: Server, dataset: Path, tmp_path: Path) -> None:
    with start(*words(server, dataset, Path("/dev/fd/1")), env=environ()) as running:
        piped, err = running.communicate(timeout=60)
    assert err.startswith("/dev/fd/1: 12 questions, 30 requests, ")
    redirected = sureenough(*words(server, dataset, Path("/dev/fd/1")), env=environ())
    assert redirected.stdout == piped
    assert json.loads(piped)["requests"] == BATCHES
    assert [file.name for file in tmp_path.iterdir()] == ["sums.jsonl"]


def test_a_stream_that_is_closed_is_refused_before_a_request(server: Server, dataset: Path) -> None:
    closed = sureenough(*words(server, dataset, Path("/dev/fd/99")), env=environ())
    assert (closed.returncode, server.requests) == (2, [])
    assert closed.stderr == "sureenough: cannot write /dev/fd/99: nothing is open there; name a file\n"
