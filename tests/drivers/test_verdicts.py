"""Verdicts of the symbolic judge are kept with a run or a pool, so that a rerun groups answers in the same way."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import sureenough as se
from sureenough.answers import REPLAY_SECONDS, VERSION
from sureenough.answers.symbolic import WORKER, WorkerReply
from sureenough.bench.judging import judge_question
from sureenough.cli.view import run_on_recorded
from sureenough.core.events import path_seed
from sureenough.drivers.judging import PoolVerdicts, recorded_classes
from sureenough.drivers.record import RecordQuestion, record, with_verdicts
from sureenough.drivers.run_log_files import read_ends, save_log
from sureenough.drivers.run_log_writer import RunLogWriter
from sureenough.engines import Fake, Prompt
from sureenough.pools import Journal, Pool, PoolInfo, write_journal_pool

ONE, TWO, OTHER = r"\sin(2x)", r"2\sin x\cos x", "7"
SAME, NOT_READY = WorkerReply(True, steps=1), WorkerReply(None, "timeout", settled=False)
ANSWERS = (ONE, TWO, OTHER, OTHER)


def engine() -> Fake:
    """The seed of a path decides its answer."""
    return Fake(lambda seed: [[se.Token(rf"\boxed{{{ANSWERS[seed % 4]}}}", 0.5, 9.0)]])


def paths(out: se.Outcome) -> list[se.RecordedPath]:
    """The paths of a run with that engine."""
    seeds = [path_seed(out.seed, number) for number in range(out.started)]
    return [se.RecordedPath(ANSWERS[seed % 4], [0.5], [9.0]) for seed in seeds]


def verdict(monkeypatch: pytest.MonkeyPatch, reply: WorkerReply | None) -> None:
    def ask(*_: object, **__: object) -> WorkerReply:
        assert reply is not None, "the judge was asked"
        return reply

    monkeypatch.setattr(WORKER, "ask", ask)


@pytest.mark.parametrize(("reply", "classes"), [(SAME, 2), (NOT_READY, 3)])
def test_a_replay_with_a_runs_classes_asks_no_judge(
    monkeypatch: pytest.MonkeyPatch, reply: WorkerReply, classes: int
) -> None:
    verdict(monkeypatch, reply)
    out = se.ask("?", engine(), "sc", paths=24)
    assert len(out.classes) == len(out.votes) == classes
    assert {answer for group in out.classes for answer in group} == set(ANSWERS)
    verdict(monkeypatch, None)
    again = se.replay(paths(out), "sc", classes=out.classes)
    assert (again.votes, again.classes) == (out.votes, out.classes)


def test_a_live_run_says_that_a_pair_had_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    verdict(monkeypatch, NOT_READY)
    assert any("1 pairs of answers got no verdict in time" in note for note in se.ask("?", engine(), "sc").notes)
    verdict(monkeypatch, SAME)
    assert not any("no verdict" in note for note in se.ask("?", engine(), "sc").notes)


def test_the_log_of_a_run_has_its_classes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    verdict(monkeypatch, NOT_READY)
    log = RunLogWriter({"question": "?"})
    out = se.ask("?", engine(), "sc", paths=24, observers=[log])
    log.end(out)
    save_log(tmp_path / "run.jsonl", log.with_texts())
    verdict(monkeypatch, None)
    result = read_ends(tmp_path / "run.jsonl")[1]["result"]
    assert se.replay(paths(out), "sc", classes=result["classes"]).votes == out.votes
    assert json.loads(log.lines[-1])["result"]["classes"] == [list(group) for group in out.classes]


def test_new_answers_join_the_classes_that_the_judge_finds() -> None:
    judge = se.judge(key=str.casefold)
    classes, note = recorded_classes([["a", "b"], ["c"]], judge, ["A", "a", "b", "c", "D", "d"])
    assert note is None
    assert classes["A"] == classes["a"] == classes["b"] != classes["c"]
    assert classes["D"] == classes["d"] not in (classes["a"], classes["c"])


def recorded_pool(folder: Path, judge: Any = None) -> Path:
    more = {} if judge is None else {"judge": judge}
    question = RecordQuestion("q", Prompt.user("?"), **more)
    with Journal(folder / "pool.journal", {}) as journal:
        asyncio.run(record([question], engine(), journal, paths=16, parallel=4, seed=0))
        info = with_verdicts(PoolInfo(), [question], journal)
        write_journal_pool(folder / "pool.parquet", [question], journal, info, keep_text=True)
    return folder / "pool.parquet"


@pytest.mark.parametrize(("reply", "classes"), [(SAME, 2), (WorkerReply(None, "too much CPU time"), 3)])
def test_a_pool_keeps_the_verdicts_of_its_recording(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, reply: WorkerReply, classes: int
) -> None:
    monkeypatch.setenv("SUREENOUGH_CACHE", str(tmp_path / "cache"))
    verdict(monkeypatch, reply)
    pool = recorded_pool(tmp_path)
    verdict(monkeypatch, None)
    (question,) = Pool(pool)
    judged = judge_question(question, REPLAY_SECONDS, "meaning", verdicts=PoolVerdicts.read(Pool(pool).info))
    assert len(set(judged.classes.values())) == classes
    assert judged.undecided == (classes == 3)
    assert len(se.compare(pool, ["sc", "ac"], paths=16, repeats=1).rows) == 2
    log = run_on_recorded(Pool(pool), question, "sc")
    assert len(json.loads(log.lines[-1])["result"]["votes"]) == classes


def test_an_extended_pool_keeps_the_verdicts_of_its_other_questions(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    verdict(monkeypatch, SAME)
    earlier = PoolVerdicts.read(Pool(recorded_pool(tmp_path)).info)
    verdict(monkeypatch, None)
    with Journal(tmp_path / "more.journal", {}) as journal:
        question = RecordQuestion("r", Prompt.user("?"), judge=se.judge())
        info = with_verdicts(PoolInfo(), [question], journal, earlier)
        assert PoolVerdicts.read(info) == earlier != PoolVerdicts(VERSION, {})
        again = with_verdicts(PoolInfo(), [RecordQuestion("q", Prompt.user("?"))], journal, earlier)
        assert PoolVerdicts.read(again).classes == {}, "its paths are judged again"


def test_what_depended_on_the_moment_is_not_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    verdict(monkeypatch, NOT_READY)
    assert PoolVerdicts.read(Pool(recorded_pool(tmp_path)).info).classes == {}


def test_other_kinds_need_no_verdicts(tmp_path: Path) -> None:
    assert PoolVerdicts.read(Pool(recorded_pool(tmp_path, se.judge())).info).classes == {}


@pytest.mark.parametrize(
    "kept",
    [None, 3, [], {"rules": 1}, {"rules": VERSION - 1, "classes": {}}, {"rules": VERSION, "classes": {"q": [1]}}],
)
def test_verdicts_of_other_rules_and_damaged_ones_do_not_count(kept: Any) -> None:
    assert PoolVerdicts.read(replace(PoolInfo(), more={"verdicts": kept})).classes == {}
    assert PoolVerdicts.read(PoolInfo()).rules == VERSION
