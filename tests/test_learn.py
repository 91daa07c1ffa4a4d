"""`learn=`: a learner in memory or in a file, over several questions; damaged files cost what they held, no more."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import sureenough as se
from sureenough.cli import app
from sureenough.cli.learned import LearnedStates
from sureenough.engines import Fake
from sureenough.pools.learner import MOST_STATES, Learner, LearnerKey, LearnerReplica
from tests.processes import sureenough

KEY = LearnerKey("Fake", 2, "sure")


def script(seed: int) -> Iterator[list[se.Token]]:
    """Two of three paths say 7 and are sure of it; the others say what comes to mind."""
    right = seed % 3 > 0
    level = 0.9 if right else 0.5 + seed % 7 / 100
    for text in ("The answer is ", "\\boxed{7}" if right else f"\\boxed{{{seed % 11 + 20}}}"):
        yield [se.Token(text, level, 10 * level)]


def ask(learn: Any, **options: Any) -> se.Outcome:
    return se.ask("?", Fake(script), "sure:delta=0", learn=learn, **{"paths": 12, "window": 2} | options)


def learned(state: se.LearnerState) -> tuple[int, tuple[int, ...]]:
    return state.questions, state.counts


def test_a_learner_in_memory_learns_from_run_to_run() -> None:
    learner, key = se.Learner(), LearnerKey("Fake", 2, "sure:delta=0")
    first = ask(learner, seed=1)
    assert first.learned == se.LearnerState()
    assert learner.state(key) == se.LearnerState().receive(first)
    second = ask(learner, seed=2)
    assert second.learned == se.LearnerState().receive(first)
    assert learned(learner.state(key)) == (2, (2, 2))
    assert se.ask("?", Fake(script), "sc", paths=4, window=2, learn=learner).learned is None
    assert list(learner.known()) == [key], "sc reads no confidence"


def test_a_state_is_kept_under_the_window_that_the_run_has_chosen() -> None:
    learner = se.Learner()
    first = ask(learner, seed=1, window=None)
    assert first.window_paths, "the run has chosen its window"
    assert list(learner.known()) == [LearnerKey("Fake", first.window, "sure:delta=0")]
    second = ask(learner, seed=2, window=None)
    assert (second.window, second.learned) == (first.window, se.LearnerState().receive(first))
    other = ask(learner, seed=3, window=first.window * 2)
    assert other.learned == se.LearnerState(), "another window's state says nothing"
    assert {key.window for key in learner.known()} == {first.window, other.window}


def test_a_state_is_used_as_it_is() -> None:
    state = se.LearnerState(9, (4.0, 5.0), (9, 9))
    out = ask(state)
    assert out.learned == state
    paths = [se.RecordedPath(str(i % 3), [0.5, i / 20], [9.0, i]) for i in range(12)]
    with_it, without = (se.replay(paths, "sure", window=2, learn=learn) for learn in (state, None))
    assert with_it.learned == state
    assert with_it.votes != without.votes
    assert se.replay(paths, "sure", window=2, learn=with_it.learned) == with_it


def test_a_file_is_read_and_written(tmp_path: Path) -> None:
    file = tmp_path / "learned.json"
    ask(file, seed=1)
    out = ask(str(file), seed=2)
    assert out.learned is not None
    assert out.learned.questions == 1
    assert [state.questions for state in se.Learner(file).known().values()] == [2]
    assert list(tmp_path.iterdir()) == [file]
    assert "boxed" not in file.read_text()


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
def test_a_damaged_file_is_kept_aside_with_a_note(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "learned.json"
    file.write_bytes(content)
    out = ask(file)
    assert any("is damaged" in note for note in out.notes)
    assert out.learned == se.LearnerState()
    assert (tmp_path / "learned.json.damaged").read_bytes() == content
    assert not any("is damaged" in note for note in ask(file).notes)


@pytest.mark.parametrize("words", [["ask", "2?"], ["doctor"]])
def test_commands_refuse_a_damaged_file_and_leave_it_as_it_is(words: list[str], tmp_path: Path) -> None:
    file = tmp_path / "learned.json"
    file.write_text("{{{")
    done = sureenough(*words, "--learn", str(file))
    assert done.returncode == 2
    assert f"{file} is damaged (it is not a learner's file of this version) and was left as it is; " in done.stderr
    assert "move it away to learn anew" in done.stderr
    assert [(one.name, one.read_text()) for one in tmp_path.iterdir()] == [(file.name, "{{{")]


def test_a_damaged_entry_costs_only_itself(tmp_path: Path) -> None:
    file = tmp_path / "learned.json"
    good = {"model": "m", "window": 2, "strategy": "sure", "state": se.LearnerState(3, (1.0, 1.0), (3, 3)).to_json()}
    content = {
        "format": "sureenough learner",
        "version": 1,
        "models": [good | {"state": {}}, good | {"model": "other"}],
    }
    file.write_text(json.dumps(content))
    learner = se.Learner(file)
    assert [key.model for key in learner.known()] == ["other"]
    assert len(learner.notes) == 1


def test_what_cannot_be_read_or_saved(tmp_path: Path) -> None:
    with pytest.raises(se.UsageError, match="cannot be read"):
        ask(tmp_path)
    with pytest.raises(se.UsageError, match="learn is 3"):
        ask(3)
    out = ask(tmp_path / "missing" / "learned.json")
    assert any("could not be saved" in note for note in out.notes)


def test_updates_are_atomic_and_states_are_bounded(tmp_path: Path) -> None:
    learner, out = se.Learner(tmp_path / "learned.json"), ask(None)

    def work() -> None:
        for _ in range(50):
            learner.receive(KEY, out)
            learner.save()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert learner.state(KEY).questions == 200
    assert se.Learner(tmp_path / "learned.json").state(KEY).questions == 200
    for number in range(MOST_STATES + 5):
        learner.receive(KEY._replace(model=f"m{number}"), out)
    assert len(learner.known()) == MOST_STATES
    assert KEY not in learner.known(), "the one used least recently is dropped"


def test_the_command_line_keeps_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sureenough.cli.engine.EngineOptions.any_engine", lambda self, **_: Fake(script))
    file = tmp_path / "learned.json"
    result = CliRunner().invoke(app, ["ask", "2?", "-s", "sure", "--window", "2", "--json", "--learn", str(file)])
    assert result.exit_code == 0, result.output
    assert json.loads(result.output)["learned"]["questions"] == 0
    assert se.Learner(file).state(KEY).questions == 1


def test_what_was_learned_of_a_model(tmp_path: Path) -> None:
    file, folder = tmp_path / "learned.json", tmp_path / "state"
    folder.mkdir()
    learner = se.Learner(file)
    for name in ("one", "another"):
        learner.receive(LearnerKey(name, 64, "sure"), ask(None))
    learner.save()
    (folder / "learned.json").write_bytes(file.read_bytes())
    for states in (LearnedStates(file, None), LearnedStates(None, folder)):
        (line,) = states.lines("one")
        assert line.startswith("Learned of one, window 64, sure, after 1 question: tail goes with agreement by +0.")
        assert "mean peak goes with agreement by " in line
        assert [(state["model"], state["questions"]) for state in states.of("one")] == [("one", 1)]
    assert list(LearnedStates(file, None).lines("two")) == ["Nothing is known of the confidence of two."]
    with pytest.raises(se.UsageError, match=r"learned.json does not exist: nothing was learned there yet"):
        LearnedStates(None, tmp_path / "nowhere")
    with pytest.raises(se.UsageError, match=r"learned.json is a file; --state names the folder of `serve --state`"):
        LearnedStates(None, file)


def test_questions_without_differing_votes_are_not_said_to_have_taught_anything(tmp_path: Path) -> None:
    learner = se.Learner(tmp_path / "learned.json")
    agreeing = [se.RecordedPath("a", [0.5], [5.0])] * 8
    for _ in range(2):
        learner.receive(KEY, se.replay(agreeing, "sure", window=1))
    learner.save()
    (line,) = LearnedStates(learner.file, None).lines(KEY.model)
    assert ", after 2 questions: tail goes with agreement by +0.15 (the prior: no contested question yet) and" in line


def test_replicas_learn_together_as_one_learner_would() -> None:
    shared, alone, replicas = Learner(), Learner(), [LearnerReplica(), LearnerReplica()]
    outcomes = [ask(None, seed=seed) for seed in range(5)]
    for number, outcome in enumerate(outcomes):
        alone.receive(KEY, outcome)
        replicas[number % 2].receive(KEY, outcome)
    lost = replicas[0].take_gained()
    replicas[0].put_back(lost)  # an exchange that failed
    for replica in (*replicas, *replicas):  # the first learns of the second's questions with its next exchange
        shared.merge(replica.take_gained())
        replica.replace(shared.known())
    assert shared.state(KEY).sums == pytest.approx(alone.state(KEY).sums)
    assert learned(shared.state(KEY)) == learned(alone.state(KEY))
    assert [replica.known() for replica in replicas] == [shared.known()] * 2
    replicas[0].receive(KEY, outcomes[0])
    replicas[0].replace(shared.known())  # what was learned in the meantime is not lost
    assert replicas[0].state(KEY).questions == shared.state(KEY).questions + 1


def test_a_replica_that_cannot_exchange_keeps_a_bounded_number_of_states() -> None:
    replica, outcome = LearnerReplica(), ask(None)
    for number in range(MOST_STATES + 5):
        replica.receive(LearnerKey(f"model {number}", 2, "sure"), outcome)
    assert len(replica.take_gained()) == MOST_STATES
