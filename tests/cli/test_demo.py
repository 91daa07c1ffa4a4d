"""`sureenough demo`, and `ask` without a server: what the demo says, and whole runs."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

import sureenough as se
from sureenough import reasoner
from sureenough.bench import Comparison, Row
from sureenough.bench.result import ComparedStrategy, Recommendation
from sureenough.bench.score import Interval
from sureenough.bench.tables import Measure
from sureenough.cli import app, demo
from sureenough.cli.demo import comparison_lines, live_lines
from sureenough.cli.engine import GREETING
from sureenough.data import BUILTIN_POOL, PROBLEMS_POOL
from sureenough.problems import generate
from tests.processes import CLEAN, start, sureenough
from tests.requirements import FULL


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return sureenough(*words, env=CLEAN | {"NO_COLOR": "1"}, timeout=280)


def row(strategy: str, difference: float, saving: float, spread: float = 0.02) -> Row:
    interval = Interval(difference - spread, difference + spread)
    return Row(
        strategy, 0.7 + difference, Interval(0.5, 0.9), difference, interval, 1000 / saving, saving, 0, 0, 0, {}, {},
        {}, 50, 50, 5,
    )  # fmt: skip


def comparison(*rows: Row) -> Comparison:
    return replace(se.compare(BUILTIN_POOL, "sc", paths=1, repeats=1), rows=[row("sc", 0.0, 1.0), *rows])


def test_the_comparison_has_bars_and_a_legend() -> None:
    result = comparison(row("sure", -0.016, 4.0))
    candidates = [ComparedStrategy("sure", 250.0, Measure(-0.016, -0.0512, 0.0234), 0.019)]
    advice = Recommendation("tiny", "model", "accuracy", 50, "sc", 1000.0, candidates)
    lines = list(comparison_lines(replace(result, recommendation=advice)))
    assert "-1.6 [-5.1, +2.3] " in lines[4]
    assert [len(line.split("x  ")[1]) for line in lines if "x  " in line] == [28, 7]
    for column in lines[2].split("  "):
        assert f"{column.strip()}:" in "\n".join(lines[-3:]) or column.strip() in ("", "strategy")


def test_the_live_question_in_sentences() -> None:
    def lines(out: se.Outcome, gold: str = "5", *measured: float | None) -> list[str]:
        return list(
            live_lines(demo.LiveAnswer(replace(demo.live_problem(), gold=gold), out, *(measured or (None, None))))
        )

    out = se.replay([se.RecordedPath("5", [0.5], [5.0])] * 3, "sc")
    assert lines(out, "5", 90.0, 1.0) == [
        "Answer: 5 (right), with 100% of the votes.",
        "3 of 3 paths were started.",
        "It took 3 tokens in 1.0 s; all 3 paths to their end would have taken about 100.",
    ]
    assert lines(out, "6")[0].startswith("Answer: 5 (wrong, it is 6)")
    assert lines(replace(out, reason="deadline", tiers={se.Tier.DROP: 2}))[1:] == [
        "3 of 3 paths were started; 2 were cut off when their confidence dropped.",
        "This machine is slow or busy: the run was ended here, with the vote so far.",
        "It took 3 tokens.",
    ]
    assert lines(se.replay([se.RecordedPath(None, [0.5], [5.0])], "sc"), "6")[0] == "No answer; it is 6."


def test_the_question_settles_and_shows_pruning() -> None:
    pool = se.Pool(PROBLEMS_POOL)
    question = next(iter(pool))
    assert question.id == demo.live_problem().id
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


def test_the_comparison_is_the_same_for_everybody() -> None:
    done = run("demo", "--no-live")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines[3:8]] == ["sc", "ac", "deepconf-low", "ddc", "sure"]
    assert lines[3].split()[1] != "100.0"
    assert sum(line.startswith("Most promising is ac: 2.1x fewer tokens than sc") for line in lines) == 1
    assert lines[-1].startswith("50 questions can")


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
    assert "The same question as it was recorded:\nAnswer: 219 (right)" in done.stdout
    assert "Then the vote was settled." in done.stdout


def test_ctrl_c_gives_the_vote_so_far() -> None:
    with start("demo", env=CLEAN | {"PYTHONUNBUFFERED": "1"}) as process:
        while not process.stdout.readline().startswith("  Solve"):
            pass
        time.sleep(2)
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "The run was interrupted; this is the vote so far." in output
    assert "strategy" not in output
    assert "Traceback" not in errors
