"""`sureenough demo`, and `ask` without a server: what the demo says, and whole runs."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from pathlib import Path

import pytest
from arithmetic import generate
from typer.testing import CliRunner

import sureenough as se
from sureenough import reasoner
from sureenough.cli import app, demo
from sureenough.cli.demo import explained
from sureenough.cli.engine import GREETING
from sureenough.data import PROBLEMS_POOL
from tests.processes import CLEAN, start, sureenough
from tests.requirements import FULL


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return sureenough(*words, env=CLEAN | {"NO_COLOR": "1"}, timeout=280)


def test_a_run_is_explained_with_the_right_answer() -> None:
    out = se.replay([se.RecordedPath("5", [0.5], [5.0])] * 3, "sc")
    assert explained(out, "6", None) == f"{out.explain()}\nThe right answer is 6."
    assert explained(out, "5", 2.0).endswith("The right answer is 5."), "nothing was saved"
    assert explained(out, "5", 1234.5).endswith("is 5. All 3 paths to their end would take about 1,200 tokens.")


def test_the_question_settles_and_shows_pruning() -> None:
    pool = se.Pool(PROBLEMS_POOL)
    question = next(iter(pool))
    assert question.text == "Solve 76(51x+929)+124x+6756=3875x+104735 for x."
    out = se.replay(question.paths, demo.STRATEGY, window=pool.info.window)
    assert (out.answer, out.reason, out.pruned > 3) == (question.gold, "settled", True)


@pytest.mark.parametrize("level", [1, 2, 3, 4, 5])
def test_its_own_problems_are_not_strange_to_it(level: int) -> None:
    assert [one.question for one in generate(level, 99, 200) if reasoner.hint(one.question)] == []


@pytest.mark.parametrize(
    ("question", "named"),
    [
        ("Who wrote Faust?", "'who', 'wrote', 'faust'"),
        ("2^10 = ?", r"'\^'"),
        ("1234567890123 + 1 = ?", "'a number of 13 digits'"),
        ("Wieviel ist 3 plus 4?", "'wieviel', 'ist'"),
        ("π + 1 = ?", "'π'"),
    ],
)
def test_other_questions_get_a_hint(question: str, named: str) -> None:
    output = reasoner.hint(question)
    assert output is not None
    with pytest.raises(ValueError, match=f"never seen {named}, so its answer means little here; it knows questions"):
        raise ValueError(output)


def test_a_question_with_no_server() -> None:
    done = run("ask", "What is (3+4)*12-7?", "--json")
    output = json.loads(done.stdout)
    assert (done.returncode, output["answer"], output["window"]) == (0, "77", reasoner.card().window)
    assert output["tokens"]["overrun_known"]
    assert done.stderr == GREETING + "\n"
    strange = run("ask", "Who wrote Faust?", "-s", "sc", "--paths", "1")
    assert strange.stderr.startswith(GREETING + "\nHint: the built-in model has never seen 'who'")
    named = run("ask", "What is 3+4?", "--model", "built-in", "-s", "sc", "--paths", "1")
    assert (named.stdout, GREETING in named.stderr) == ("7\n", True)


def test_a_model_of_ones_own(tmp_path: Path) -> None:
    done = run("ask", "What is (3+4)*12-7?", "--model", str(reasoner.FILE), "-s", "sc", "--paths", "4", "--template",
               "{question}", "--max-path-tokens", "200")  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "77\n")
    assert "Answer: 77" in done.stderr
    questions = tmp_path / "questions.jsonl"
    questions.write_text('{"id": "1", "question": "What is 3+4?", "gold": "7"}\n')
    pool = tmp_path / "pool.parquet"
    done = run("record", str(questions), "-o", str(pool), "--paths", "4")
    assert done.returncode == 0, done.stderr
    info = se.Pool(pool).info
    assert (info.model, info.engine, info.window) == (reasoner.NAME, "local", reasoner.card().window)
    assert info.prompt == reasoner.card().template


def test_the_whole_demo(monkeypatch: pytest.MonkeyPatch) -> None:
    if not FULL:
        monkeypatch.setattr(demo, "PATHS", 12)
    done = CliRunner().invoke(app, ["demo", "--json"])
    assert done.exit_code == 0, done.stderr
    output = json.loads(done.stdout)
    assert output["live"]["gold"] == "219"
    assert output["live"]["reason"] in {"settled", "deadline", "settled" if FULL else "budget"}
    assert len(output["comparison"]["pools"][0]["rows"]) == 5
    assert output["advice"].splitlines() == output["comparison"]["pools"][0]["recommendation"]["text"]


def test_without_an_engine_the_question_is_shown_as_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(self: object) -> None:
        raise se.UsageError("the local engine needs the package xllamacpp")

    monkeypatch.setattr(se.Local, "prepare", missing)
    done = CliRunner().invoke(app, ["demo"])
    assert done.exit_code == 0
    assert "It cannot be asked live: the local engine needs the package xllamacpp." in done.stderr
    assert "The same question as it was recorded:\nAnswer: 219 (" in done.stdout
    assert "\nThe vote was settled when" in done.stdout


def test_ctrl_c_gives_the_vote_so_far() -> None:
    with start("demo", env=CLEAN | {"PYTHONUNBUFFERED": "1"}) as process:
        while not process.stdout.readline().startswith("  Solve"):
            pass
        time.sleep(2)
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "\nThe run was interrupted when" in output
    assert "strategy" not in output
    assert "Traceback" not in errors
