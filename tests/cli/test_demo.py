"""`sureenough demo`, and `ask` without a server: what the demo says, and whole runs."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest
from arithmetic import generate
from typer.testing import CliRunner

import sureenough as se
from sureenough import reasoner
from sureenough.cli import app, demo
from sureenough.cli.engine import GREETING
from tests.processes import CLEAN, start, sureenough


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return sureenough(*words, env=CLEAN | {"NO_COLOR": "1"}, timeout=280)


def test_each_question_has_its_line_and_bars(monkeypatch: pytest.MonkeyPatch) -> None:
    out = se.replay([se.RecordedPath("5", [0.5] * 30, [5.0] * 30)] * 16, "sure", window=4)
    for columns, bar in (("60", 24), ("200", demo.BAR)):
        monkeypatch.setattr(demo, "width", lambda columns=columns: int(columns))
        line, *bars = demo.outcome_lines(out, "6")
        assert line.startswith("  5, 3 of 3 votes (100%, settled); 90 tokens, ")
        blocks = "#█"
        assert [sum(bars[i].count(block) for block in blocks) for i in (0, 1)] == [round(bar * 90 / 480), bar]
        assert bars[1].endswith(" about 480 (estimate)")
        assert max(map(len, line.splitlines() + bars)) <= int(columns)


def test_a_machine_that_is_too_slow_is_said_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "width", lambda: 200)
    out = se.replay([se.RecordedPath("5", [0.5] * 30, [5.0] * 30)] * 16, "sure", window=4)
    line, slow = demo.outcome_lines(replace(out, reason="deadline", full_budget_tokens=None), "6")
    assert "the deadline passed" in line
    assert "This machine is slow or busy" in slow


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
    assert "77, 4 of 4 votes (100%)" in done.stderr
    questions = tmp_path / "questions.jsonl"
    questions.write_text('{"id": "1", "question": "What is 3+4?", "gold": "7"}\n')
    pool = tmp_path / "pool.parquet"
    done = run("record", str(questions), "-o", str(pool), "--paths", "4")
    assert done.returncode == 0, done.stderr
    info = se.Pool(pool).info
    assert (info.model, info.engine, info.window) == (reasoner.NAME, "local", reasoner.card().window)
    assert info.prompt == reasoner.card().template


def test_the_whole_demo() -> None:
    done = CliRunner().invoke(app, ["demo", "--json"])
    assert done.exit_code == 0, done.stderr
    output = json.loads(done.stdout)
    easy, contested, hopeless = output["live"]
    assert (easy["answer"], easy["right_answer"], easy["reason"]) == ("77", "77", "settled")
    shares = [one["agreeing"] / max(1, one["voting"]) for one in (easy, contested, hopeless)]
    assert shares[0] > shares[1] > shares[2] or "deadline" in {contested["reason"], hopeless["reason"]}
    (compared,) = output["comparison"]["pools"]
    assert [row["strategy"] for row in compared["rows"]] == list(demo.COMPARED)


def test_without_an_engine_there_is_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(self: object) -> None:
        raise se.UsageError("the local engine needs the package xllamacpp")

    monkeypatch.setattr(se.Local, "prepare", missing)
    done = CliRunner().invoke(app, ["demo"])
    assert done.exit_code == 0
    assert "Nothing can be asked live: the local engine needs the package" in done.stderr
    assert done.stdout.startswith("Strategies on the same recorded paths")
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_ctrl_c_gives_the_vote_so_far() -> None:
    with start("demo", env=CLEAN | {"PYTHONUNBUFFERED": "1"}) as process:
        while not process.stdout.readline().startswith("A hopeless one: "):
            pass
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "the run was interrupted" in " ".join(output.split())
    assert "Strategies on the same" not in output
    assert "Traceback" not in errors
