"""`learn=`: what earlier questions have taught, as a state or in a file, over several questions."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import sureenough as se
from sureenough.cli import app
from sureenough.engines import Fake
from sureenough.pools.learner import MOST_STATES, LearnerKey, LearnerStates

KEY = LearnerKey("Fake", 2, "sure:delta=0")


def script(seed: int) -> Iterator[list[se.Token]]:
    """Two of three paths say 7 and are sure of it; the others say what comes to mind."""
    right = seed % 3 > 0
    level = 0.9 if right else 0.5 + seed % 7 / 100
    for text in ("The answer is ", "\\boxed{7}" if right else f"\\boxed{{{seed % 11 + 20}}}"):
        yield [se.Token(text, level, 10 * level)]


def ask(learn: Any, **options: Any) -> se.Outcome:
    return se.ask("?", Fake(script), "sure:delta=0", learn=learn, **{"paths": 12, "window": 2} | options)


def test_a_file_is_read_and_written(tmp_path: Path) -> None:
    file = tmp_path / "learned.json"
    first = ask(file, seed=1)
    assert first.learned == se.LearnerState()
    assert LearnerStates(file).known == {KEY: se.LearnerState().receive(first)}
    second = ask(str(file), seed=2)
    assert second.learned == se.LearnerState().receive(first)
    assert LearnerStates(file).known[KEY].counts == (2, 2)
    assert se.ask("?", Fake(script), "sc", paths=4, window=2, learn=file).learned is None
    assert list(LearnerStates(file).known) == [KEY], "sc reads no confidence"
    assert list(tmp_path.iterdir()) == [file]
    assert "boxed" not in file.read_text()


def test_a_state_is_kept_under_the_window_that_the_run_has_chosen(tmp_path: Path) -> None:
    file = tmp_path / "learned.json"
    first = ask(file, seed=1, window=None)
    assert first.window_paths, "the run has chosen its window"
    assert list(LearnerStates(file).known) == [KEY._replace(window=first.window)]
    second = ask(file, seed=2, window=None)
    assert (second.window, second.learned) == (first.window, se.LearnerState().receive(first))
    other = ask(file, seed=3, window=first.window * 2)
    assert other.learned == se.LearnerState(), "another window's state says nothing"
    assert {key.window for key in LearnerStates(file).known} == {first.window, other.window}


def test_a_state_is_used_as_it_is() -> None:
    state = se.LearnerState(9, (4.0, 5.0), (9, 9))
    out = ask(state)
    assert out.learned == state
    paths = [se.RecordedPath(str(i % 3), [0.5, i / 20], [9.0, i]) for i in range(12)]
    with_it, without = (se.replay(paths, "sure", window=2, learn=learn) for learn in (state, None))
    assert with_it.learned == state
    assert with_it.votes != without.votes
    assert se.replay(paths, "sure", window=2, learn=with_it.learned) == with_it


@pytest.mark.parametrize(
    "content",
    [
        b"", b"\xff\xfe", b"{", b"[" * 100_000, b"null", b"[]", b'{"format": "sureenough learner", "version": 9}',
        b'{"format": "sureenough learner", "version": 1}',
        b'{"format": "sureenough learner", "version": 1, "models": [3]}',
        b'{"format": "sureenough learner", "version": 1, "models": [{"model": 1, "window": 2, "strategy": "sure"}]}',
        b" " * (1 << 20) + b"{}",
    ],
)  # fmt: skip
def test_a_damaged_file_is_refused_and_stays_as_it_is(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "learned.json"
    file.write_bytes(content)
    with pytest.raises(
        se.UsageError, match=r"learned.json is damaged \(.*\) and was left as it is; repair it, or move"
    ):
        ask(file)
    assert [(one.name, one.read_bytes()) for one in tmp_path.iterdir()] == [(file.name, content)]


def test_a_damaged_entry_is_named(tmp_path: Path) -> None:
    file = tmp_path / "learned.json"
    good = {"model": "m", "window": 2, "strategy": "sure", "state": se.LearnerState(3, (1.0, 1.0), (3, 3)).to_json()}
    for damage, problem in (
        ({"state": {}}, "not a learner's state of version 1"),
        ({"window": "2"}, "an entry has no model, window or strategy"),
    ):
        file.write_text(json.dumps({"format": "sureenough learner", "version": 1, "models": [good, good | damage]}))
        with pytest.raises(se.UsageError, match=problem):
            LearnerStates(file)


def test_what_cannot_be_read_or_saved(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for file in (tmp_path, tmp_path / "pipe"):
        with pytest.raises(se.UsageError, match="cannot be read"):
            ask(file)
    with pytest.raises(se.UsageError, match="learn is 3; it must be a LearnerState or the name of a file"):
        ask(3)
    out = ask(tmp_path / "missing" / "learned.json")
    assert any("could not be saved" in note for note in out.notes)


def test_files_are_whole_whoever_writes_them_and_states_are_bounded(tmp_path: Path) -> None:
    states, out = LearnerStates(tmp_path / "learned.json"), ask(None)

    def work(number: int) -> None:
        own = LearnerStates(states.file)
        for _ in range(50):
            own.receive(f"model {number}", "sure", out)
            assert own.save() == ()
            LearnerStates(states.file)

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(work, range(4)))
    assert max(state.questions for state in LearnerStates(states.file).known.values()) == 50
    assert len(list(tmp_path.iterdir())) == 1


def test_one_question_each_under_many_names_evicts_nothing_that_was_learned(tmp_path: Path) -> None:
    """Clients choose names and windows: the states of one question evict each other. What is saved can be read."""
    states, out = LearnerStates(tmp_path / "learned.json"), ask(None)
    for _ in range(2):
        states.receive("learned", "sure", out)
    for number in range(MOST_STATES + 5):
        states.receive(f"{number} " + "\U0001f600" * 1_000, "\U0001f600" * 1_000, out)
    assert len(states.known) == MOST_STATES
    assert [key.model.split()[0] for key in states.known][:2] == ["learned", "6"], "the oldest of those is dropped"
    assert states.save() == ()
    assert LearnerStates(states.file).known == states.known


def test_the_command_line_keeps_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sureenough.cli.engine.EngineOptions.any_engine", lambda self, **_: Fake(script))
    file = tmp_path / "learned.json"
    words = ["ask", "2?", "-s", "sure:delta=0", "--window", "2", "--json", "--learn", str(file)]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    assert json.loads(result.output)["learned"]["questions"] == 0
    assert LearnerStates(file).known[KEY].questions == 1
