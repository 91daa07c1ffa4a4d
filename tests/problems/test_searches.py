"""The searches that the long-chain model learns from: every line holds, and none knows the answer beforehand."""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path
from random import Random

import numpy as np
import pytest
from searcher import corpus, countdown, countdown_traces, grid, grid_traces, job, pool
from searcher.files import Sampled, load_paths, load_weights, save_paths, save_weights
from searcher.problems import LEVELS
from searcher.sample import drawn, write_sample
from searcher.trace import GIVEN_UP, LONGEST
from shape import CLOSE, OPEN, PAD

from sureenough.answers import extract
from sureenough.pools import Pool
from tests.problems.reckon import reckon

STEP = re.compile(r"(\d+)([-+*/])(\d+)=(\d+)")
SAMPLE = Path(__file__).parents[2] / "training" / "searcher" / "sample.parquet"
APPLY = {"+": int.__add__, "-": int.__sub__, "*": int.__mul__, "/": int.__truediv__}


@pytest.mark.parametrize("level", LEVELS)
def test_every_step_of_countdown_holds_and_the_box_is_checked(level: int) -> None:
    rng, answered = Random(level), 0
    for _ in range(60):
        core = countdown.draw(rng, level)
        trace = countdown_traces.solve(rng, core)
        for a, sign, b, result in STEP.findall(re.sub(r"check .*", "", trace.text)):
            assert APPLY[sign](int(a), int(b)) == int(result) <= countdown.MOST, trace.text
        checked = re.search(r"check (.*)=(\d+), ", trace.text)
        if checked:
            assert reckon(checked[1]) == int(checked[2]) == trace.best
            assert not Counter(map(int, re.findall(r"\d+", checked[1]))) - Counter(core.numbers)
            assert int(checked[2]) <= core.target
        assert len(trace.text) <= LONGEST
        assert extract(trace.text) == (None if trace.answer is None else str(trace.answer))
        assert trace.text.endswith(GIVEN_UP) == (trace.answer is None)
        answered += trace.answer is not None
    assert 10 < answered < 60


def test_states_follow_from_states_before() -> None:
    rng = Random(5)
    for level in LEVELS:
        for _ in range(10):
            core = countdown.draw(rng, level)
            lines = countdown_traces.solve(rng, core).text.splitlines()
            known = {tuple(core.numbers)}
            here: tuple[int, ...] = ()
            for line in lines[1:]:
                states = [tuple(map(int, inside.split())) for inside in re.findall(r"\[([\d ]+)\]", line)]
                if re.match(r"(back )?\d+ \[|keep ", line):
                    assert set(states) <= known, line
                    here = states[0]
                elif states:
                    a, _, b, result = (int(x) if x.isdigit() else 0 for x in STEP.match(line).groups())  # type: ignore[union-attr]
                    left = list(here)
                    left.remove(a)
                    left.remove(b)
                    assert states == [tuple(sorted([*left, result]))]
                    known.add(states[0])


def steps_along(names: list[str], core: grid.Grid) -> int:
    """The steps of a path, each of which must be allowed."""
    cells = [("abcdefghijkl".index(name[0]), int(name[1:]) - 1) for name in names]
    assert (cells[0], cells[-1]) == (core.start, core.goal)
    assert all(b in core.neighbours(a) for a, b in pairwise(cells))
    return len(cells) - 1


@pytest.mark.parametrize("level", LEVELS)
def test_paths_through_grids_lead_to_the_goal(level: int) -> None:
    rng = Random(level)
    for _ in range(40):
        task = grid.make(rng, level)
        trace = grid_traces.solve(rng, task.core)
        way = re.search(r"path (.*)", trace.text)
        assert (way is None) == (trace.answer is None)
        if way:
            assert steps_along(way[1].split()[::2], task.core) == trace.answer
            assert trace.answer is not None
            assert trace.answer >= int(task.gold)
            if trace.text.startswith(("breadth", "star")):
                assert trace.answer == int(task.gold)
        assert len(trace.text) <= LONGEST


def test_no_search_asks_for_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers, cells = countdown.make(Random(1), 2).core, grid.make(Random(1), 2).core

    def refuse(*_: object) -> None:
        raise AssertionError("a search looked at the answer")

    monkeypatch.setattr(countdown, "reachable", refuse)
    monkeypatch.setattr(grid, "distance", refuse)
    for seed in range(20):
        countdown_traces.solve(Random(seed), numbers)
        grid_traces.solve(Random(seed), cells)


def test_a_cut_search_answers_with_its_best_so_far() -> None:
    rng = Random(8)
    for _ in range(200):
        core = countdown.draw(rng, 4)
        trace = countdown_traces.solve(rng, core)
        begun, answer = trace.cut(rng)
        marked = re.findall(r"(\d+)!", begun)
        assert trace.text.startswith(begun)
        assert extract(answer) == (marked[-1] if marked else "0")


def documents(row: np.ndarray) -> list[np.ndarray]:
    tokens = row & (corpus.LEARNED - 1)
    starts = np.flatnonzero((tokens == OPEN) & (np.roll(tokens, -1) == ord("u")))
    return [tokens[a:b] for a, b in zip(starts, [*starts[1:], len(tokens)], strict=True)]


def test_rows_hold_whole_documents_of_which_searches_are_learned() -> None:
    table = corpus.rows("test", 8)
    tokens, learned = table & (corpus.LEARNED - 1), table >= corpus.LEARNED
    assert table.shape == (8, corpus.ROW + 1)
    assert (tokens == PAD).mean() < 0.1
    assert not learned[tokens == PAD].any()
    for row in table:
        for document in documents(row):
            assert document[document != PAD][-1] == CLOSE
    texts = [bytes(one[one < 256].astype(np.uint8)).decode() for one in documents(table[0])]
    assert all("The answer is" in text or GIVEN_UP in text for text in texts)
    assert (corpus.rows("test", 8) == table).all()


def test_held_out_questions_are_left_out() -> None:
    def questions(held_out: frozenset[str]) -> set[str]:
        rng = Random(0)
        prompts = [corpus.write_document(rng, held_out).tokens for _ in range(60)]
        texts = [bytes(token for token in tokens[: tokens.index(CLOSE)] if token < 256) for tokens in prompts]
        return {text.decode().removeprefix("user\n").removesuffix(corpus.INSTRUCTION) for text in texts}

    plain = questions(frozenset())
    held_out = frozenset(sorted(plain)[::3])
    assert not questions(held_out) & held_out
    assert questions(held_out) & plain


def test_processes_give_the_rows_that_their_seeds_name() -> None:
    stream = corpus.Stream(seed=3, workers=2, start=1, held_out=frozenset(), row=1024)
    try:
        rows = stream.take(2 * corpus.BLOCK)
    finally:
        stream.close()
    expected = [
        corpus.rows("searches 3 1 0", corpus.BLOCK, row=1024),
        corpus.rows("searches 3 0 1", corpus.BLOCK, row=1024),
    ]
    assert (rows == np.concatenate(expected)).all()


def test_paths_come_back_from_their_file(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    paths = [
        Sampled(i // 2, i % 2, b"x" * (n - 1), rng.random(n).astype("f2"), rng.random(n).astype("f2") * 9, bool(i % 3))
        for i, n in enumerate((1, 7, 300))
    ]  # fmt: skip
    save_paths(tmp_path / "paths.xz", paths)
    for path, again in zip(paths, load_paths(tmp_path / "paths.xz"), strict=True):
        assert (*path[:3], path.finished) == again[:3] + again[5:]
        assert (path.peak == again.peak).all()
        assert (path.conf == again.conf).all()


COLLECTIONS = ("grid", "countdown", "countdown")


def made_pool(folder: Path, *words: str) -> Pool:
    """Twelve questions with three paths each, in two files, the later ones in the first, as a pool."""
    rng = np.random.default_rng(0)
    listed = [[f"{COLLECTIONS[q % 3]}-{q}", "?", "7", 1 + q % 5] for q in range(12)]
    (folder / "pool-questions.json").write_text(json.dumps(listed))
    (folder / "temperature.json").write_text('{"temperature": 0.8, "top_p": 0.95, "scan": {}}')
    paths = [
        Sampled(q, n, rb"x \boxed{%d}." % (7 + n), rng.random(150), rng.random(150), n < 2)
        for q in range(12)
        for n in range(3)
    ]
    save_paths(folder / "pool.000.xz", paths[21:])
    save_paths(folder / "pool.001.xz", paths[:21])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["pool", str(folder), str(folder / "made.parquet"), *words])
        pool.main()
    return Pool(folder / "made.parquet")


def test_a_pool_is_made_of_sampled_paths(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    questions = list(made_pool(tmp_path, "--half", "test"))
    assert "6 questions, 18 paths" in capsys.readouterr().out
    assert [question.id for question in questions] == [f"{COLLECTIONS[q % 3]}-{q}" for q in range(1, 12, 2)]
    assert [path.answer for path in questions[0].paths] == ["7", "8", None], "a path that did not finish has no answer"


def test_a_sample_has_whole_questions_of_both_collections_and_fits(tmp_path: Path) -> None:
    source = made_pool(tmp_path)
    whole = source.file.stat().st_size
    sample = tmp_path / "sample.parquet"
    number = write_sample(sample, source.file, int(0.6 * whole), seed=1)
    assert sample.stat().st_size <= 0.6 * whole
    questions = list(Pool(sample))
    assert 2 <= len(questions) == number < 12
    assert {question.id.partition("-")[0] for question in questions} == {"countdown", "grid"}
    assert all(len(question.paths) == 3 for question in questions)
    ids = [question.id for question in source]
    assert drawn(ids, 1) == drawn(ids, 1) != drawn(ids, 2)
    assert sorted(drawn(ids, 1)) == sorted(ids)
    with pytest.raises(SystemExit, match="not one question"):
        write_sample(sample, source.file, 100, seed=1)


@pytest.mark.skipif(not SAMPLE.exists(), reason="source distributions leave the sample out")
def test_the_sample_is_small_and_has_whole_questions_of_both_collections() -> None:
    questions = list(Pool(SAMPLE))
    assert SAMPLE.stat().st_size <= 8_000_000
    assert {question.id.partition("-")[0] for question in questions} == {"countdown", "grid"}
    assert {len(question.paths) for question in questions} == {128}
    paths = [path for question in questions for path in question.paths]
    assert sum(path.tokens for path in paths) / len(paths) > 800, "the chains are long"


class Tensor:
    """As much of a torch tensor as the file of weights needs."""

    def __init__(self, values: np.ndarray) -> None:
        self.shape, self._values = values.shape, values

    def numpy(self) -> np.ndarray:
        return self._values


def test_weights_come_back_from_their_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("searcher.files.PIECE", 100)
    tensors = {"b": np.arange(300, dtype="f2").reshape(3, 100), "a": np.ones(7, "f2")}
    save_weights({name: Tensor(values) for name, values in tensors.items()}, {"hidden_size": 1}, tmp_path)
    assert len(list(tmp_path.glob("model.safetensors.*"))) > 5
    loaded = load_weights(tmp_path)
    assert {name: values.tolist() for name, values in loaded.items()} == {n: v.tolist() for n, v in tensors.items()}


def test_a_step_of_the_job_is_started_again_until_it_ends_well_or_the_time_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, begun, statuses = [0.0], list[float](), [1, -9, 0]

    def once(run: Path, step: str, arguments: list[str], seconds: float) -> int:
        begun.append(seconds)
        clock[0] += 100
        return statuses[len(begun) - 1]

    def sleep(seconds: float) -> None:
        clock[0] += seconds

    monkeypatch.setattr(job, "STARTED", 0.0)
    monkeypatch.setattr(job, "once", once)
    monkeypatch.setattr("searcher.job.time.monotonic", lambda: clock[0])
    monkeypatch.setattr("searcher.job.time.sleep", sleep)
    assert job.repeated(tmp_path, "train", [], 600.0)
    assert begun == pytest.approx([600, 498, 396])
    assert not job.repeated(tmp_path, "record", [], 310.0)
    assert "train ended with -9 after 100 s" in (tmp_path / "job.log").read_text()


def test_a_step_that_goes_on_for_too_long_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "GRACE", 0.0)
    monkeypatch.setattr("searcher.job.sys.executable", "/bin/sleep")  # ends with 1: unknown options
    assert job.once(tmp_path, "train", [], 30.0) == 1
    slow = tmp_path / "slow"
    slow.write_text("#!/bin/sh\nsleep 60\n")
    slow.chmod(0o755)
    monkeypatch.setattr("searcher.job.sys.executable", str(slow))
    assert job.once(tmp_path, "train", [], 0.2) == -9
