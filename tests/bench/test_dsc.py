"""DSC over a pool: the table, where difficulties come from, and the ranking by a model."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from sureenough.bench.experiments import experiment
from sureenough.bench.experiments.difficulties import read_difficulties
from sureenough.cli import app
from sureenough.core.events import Token
from sureenough.drivers.difficulty import batches, rank_difficulty, read_order
from sureenough.engines.base import Engine
from sureenough.engines.requests import Chunk, Prompt
from sureenough.errors import EngineError, EngineRejected, UsageError
from tests.bench.making import inputs, make_pool
from tests.bench.typed import environ, questions
from tests.engines.misbehaving import Manner, serving
from tests.in_thread import in_thread
from tests.processes import sureenough


def measured(folder: Path, ranking: str | None = None, **values: Any) -> tuple[list[dict[str, Any]], list[str]]:
    found = experiment("dsc").run(inputs(make_pool(folder, **values), repeats=2, ranking=ranking))
    (table,) = found.tables
    titles = [column.title for column in table.columns]
    return [dict(zip(titles, row, strict=True)) for row in table.rows], table.notes


def test_the_table_shows_what_dsc_spends(tmp_path: Path) -> None:
    (sc, ac, dsc), notes = measured(tmp_path)
    assert [row["method"] for row in (sc, ac, dsc)] == ["sc", "ac", "dsc"]
    assert (sc["paths"], sc["batches"], sc["vs sc"], sc["ranking tokens"]) == (24, 1.0, None, None)
    assert dsc["batches"] < ac["batches"] == ac["paths"] < dsc["paths"] <= sc["paths"]
    assert dsc["tokens"] < sc["tokens"]
    assert dsc["ranking tokens"] == 0
    assert "questions are ranked by a stand-in, the length of each question's first path" in notes[-1]


def test_another_ranking_is_another_plan_and_a_wrong_one_is_none(tmp_path: Path) -> None:
    pool, folder, ranking = make_pool(tmp_path).pool, tmp_path / "run", tmp_path / "ranking.json"

    def bench_dsc(*options: str) -> Any:
        return CliRunner().invoke(app, ["bench", "dsc", "--pool", str(pool), "-o", str(folder), "--json", *options])

    given = ("--ranking", str(ranking))
    assert "give `level`, or a JSON file" in str(bench_dsc(*given).exception)
    ranking.write_text('{"q0": 1}')
    assert "does not name question 'q1'" in str(bench_dsc(*given).exception)
    ranking.write_text(json.dumps({f"q{q}": q for q in range(8)}))
    done = bench_dsc(*given)  # the folder of the failed attempts
    assert done.exit_code == 0, done.exception
    assert bench_dsc(*given).output == done.output
    ranking.write_text(json.dumps({f"q{q}": -q for q in range(8)}))
    changed = bench_dsc(*given)  # not the result of the other order
    assert "was begun with another plan. What changed: ranking was ranking.json" in str(changed.exception)


def test_difficulties_from_a_file_count_their_tokens(tmp_path: Path) -> None:
    scores = {f"q{q}": -q for q in range(8)}  # the last question of the pool is the easiest
    ranking = tmp_path / "ranking.json"
    ranking.write_text(json.dumps({"scores": scores, "tokens": 800}))
    (*_, dsc), notes = measured(tmp_path, str(ranking))
    assert dsc["ranking tokens"] == 100
    assert notes[-1].endswith("ranked by the file ranking.json")
    ranking.write_text(json.dumps(scores))
    (*_, again), _ = measured(tmp_path, str(ranking))
    assert again["ranking tokens"] is None
    assert again["tokens"] == pytest.approx(dsc["tokens"] - 100)
    (*_, by_level), notes = measured(tmp_path, "level")
    assert by_level["ranking tokens"] == 0
    assert "the pool's own levels" in notes[-1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "give `level`, or a JSON file of difficulties"),
        ("{", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ("[1, 2]", "a file of difficulties is JSON"),
        ('{"q0": "hard"}', "a file of difficulties is JSON"),
        ('{"scores": {"q0": NaN}}', "a file of difficulties is JSON"),
        ('{"scores": {"q0": 1}, "tokens": -1}', "a file of difficulties is JSON"),
        ('{"scores": {"q0": 1}}', "does not name question 'q1'"),
    ],
)
def test_difficulties_that_cannot_be_used(tmp_path: Path, text: str | None, message: str) -> None:
    ranking = tmp_path / "ranking.json"
    if text is not None:
        ranking.write_text(text)
    with pytest.raises(UsageError, match=re.escape(message)):
        measured(tmp_path, str(ranking))


def test_difficulties_without_end_are_not_read_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sureenough.bench.experiments.difficulties.LARGEST_RANKING", 1 << 20)
    with pytest.raises(UsageError, match="a file of difficulties has at most 1 MiB"):
        read_difficulties("/dev/zero", [])


def test_other_experiments_refuse_a_ranking(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"main does not rank questions by difficulty; `bench dsc` does"):
        experiment("main").run(inputs(make_pool(tmp_path), repeats=1, ranking="level"))
    with pytest.raises(UsageError, match="no level to question"):
        read_difficulties("level", [_Unlevelled()])  # type: ignore[list-item]


class _Unlevelled:
    class question:  # noqa: N801
        id = "q"

    level = None


# -- the ranking by a model


class Ranker(Engine):
    """Orders problems by the number in their text, easiest first; every `bad`-th reply cannot be read."""

    def __init__(self, bad: int = 0, error: Exception | None = None) -> None:
        self.bad, self.error, self.requests = bad, error, list[str]()

    async def stream(self, prompt: Prompt, *, seed: int) -> AsyncGenerator[Sequence[Token], None]:
        self.requests.append(prompt.last_text)
        if self.error is not None:
            raise self.error
        problems = re.findall(r"(P\d+): difficulty (\d+)", prompt.last_text)
        order = [label for label, _ in sorted(problems, key=lambda pair: int(pair[1]))]
        bad = self.bad and len(self.requests) % self.bad == 0
        yield Chunk(unread=5, text="P1 looks hard, P2 too.\n" + ", ".join(order[bad:]))
        yield Chunk(finish="stop", prompt_tokens=7)


QUESTIONS = [(f"q{n}", f"difficulty {n}") for n in (3, 1, 4, 15, 9, 2, 6, 5, 35, 8, 97)]


def rank(engine: Engine, **values: Any) -> Any:
    return asyncio.run(rank_difficulty(QUESTIONS, engine, **values))


def test_a_model_orders_questions_in_batches() -> None:
    engine = Ranker()
    ranked = rank(engine, batch=4, rounds=60, parallel=3)
    assert sorted(ranked.scores, key=ranked.scores.__getitem__)[0] == "q1"
    assert sorted(ranked.scores, key=ranked.scores.__getitem__)[-1] == "q97"
    assert all(0.0 < score < 1.0 for score in ranked.scores.values())
    assert ranked.requests == len(engine.requests) == 180
    assert (ranked.tokens, ranked.prompt_tokens, ranked.unreadable) == (900, 1260, 0)
    everything = rank(Ranker(), batch=64, rounds=1)
    assert sorted(everything.scores, key=everything.scores.__getitem__) == sorted(
        everything.scores, key=lambda name: int(name[1:])
    )


def test_replies_that_cannot_be_read_are_left_out() -> None:
    assert rank(Ranker(bad=3), batch=4, rounds=2).unreadable == 2
    with pytest.raises(UsageError, match="none of the 6 replies is an order of the problems"):
        rank(Ranker(bad=1), batch=4, rounds=2)
    with pytest.raises(UsageError, match="none of the 6 replies"):
        rank(Ranker(error=EngineError("lost")), batch=4, rounds=2)
    with pytest.raises(EngineRejected, match="no such model"):
        rank(Ranker(error=EngineRejected("no such model")))
    with pytest.raises(UsageError, match="not UTF-8 text"):
        rank(Ranker(error=UsageError("the model's name is not UTF-8 text")))


@pytest.mark.parametrize(
    ("text", "count", "order"),
    [
        ("P2, P1, P3", 3, [1, 0, 2]),
        ("P3 is hard. So: P1,P2,P3", 3, [0, 1, 2]),
        ("P2, P1\nThat is all.", 2, [1, 0]),
        ("P1, P1, P2", 3, None),
        ("P1, P2", 3, None),
        ("P1\nP3, P2", 3, None),
        ("P0, P1", 2, None),
        ("", 2, None),
        ("P" + "9" * 9, 1, None),
        ("2, 1", 2, None),
    ],
)
def test_reading_an_order(text: str, count: int, order: list[int] | None) -> None:
    assert read_order(text, count) == order


def test_rank_writes_what_bench_reads(tmp_path: Path) -> None:
    dataset, ranking = questions(tmp_path / "sums.jsonl", 3), tmp_path / "ranking.json"
    with in_thread(serving(Manner(answer="P2, P1, P3"))) as server:
        words = ("--url", server.url, "--model", "org/tiny", "--rounds", "2", "-o", ranking)
        done = sureenough("rank", dataset, *words, env=environ())
    assert done.returncode == 0, done.stderr
    document = json.loads(ranking.read_text())
    assert document["scores"].keys() == {"q0", "q1", "q2"}
    assert (document["requests"], document["unreadable"], document["model"]) == (2, 0, "org/tiny")
    assert f"3 questions, 2 requests, {document['tokens']} tokens" in done.stdout


def test_rank_refuses_an_output_before_it_sends_anything(tmp_path: Path) -> None:
    dataset = questions(tmp_path / "sums.jsonl", 3)
    before = dataset.read_bytes()
    for output, says in [
        (tmp_path, "is a folder; name a JSON file"),
        (dataset, "holds the questions, and would be replaced; name another output"),
        (tmp_path / "missing" / "ranking.json", "cannot write"),
    ]:
        words = ["rank", str(dataset), "--url", "http://127.0.0.1:9/v1", "--model", "tiny", "-o", str(output)]
        with pytest.raises(UsageError, match=says):
            CliRunner().invoke(app, words, catch_exceptions=False)
    assert dataset.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["sums.jsonl"]


def test_every_round_has_every_question_once() -> None:
    made = list(batches(11, 4, 3, seed=5))
    assert [len(one) for one in made] == [4, 4, 3] * 3
    for start in range(0, 9, 3):
        assert sorted(place for one in made[start : start + 3] for place in one) == list(range(11))
    assert made == list(batches(11, 4, 3, seed=5))
    assert made != list(batches(11, 4, 3, seed=6))
    assert list(batches(1, 8, 2, seed=0)) == [[0], [0]]
