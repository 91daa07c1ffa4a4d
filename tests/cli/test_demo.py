"""`sureenough demo`, and `ask` without a server: sizes by the measured speed, the summary, and whole runs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import sureenough as se
from sureenough import reasoner
from sureenough.cli.demo_size import CHOICES, demo_size, length
from sureenough.cli.demo_summary import answer_lines, demo_summary
from sureenough.cli.engine import GREETING
from sureenough.data import BUILTIN_POOL
from sureenough.problems import generate

CLEAN = {name: value for name, value in os.environ.items() if not name.startswith(("SUREENOUGH", "OPENAI"))}
LENGTHS = {1: 60.0, 3: 120.0, 5: 300.0}


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "sureenough", *words]


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*words), capture_output=True, text=True, timeout=280, check=False, env=CLEAN | {"NO_COLOR": "1"}
    )


@pytest.mark.parametrize(("level", "tokens"), [(1, 60), (2, 90), (3, 120), (4, 210), (5, 300)])
def test_lengths_between_known_levels(level: int, tokens: float) -> None:
    assert length(level, LENGTHS) == tokens
    assert length(level, {3: 100.0}) == 100


@pytest.mark.parametrize(
    ("rate", "problems", "paths"), [(10_000, 20, 32), (2200, 16, 32), (1700, 12, 32), (1200, 12, 24), (1, 5, 24)]
)
def test_a_slower_machine_samples_less(rate: float, problems: int, paths: int) -> None:
    size = demo_size(rate, LENGTHS, 50)
    assert (len(size.levels), size.paths) == (problems, paths)
    assert size.tokens <= rate * 50 or rate == 1, "it fits the time, unless nothing does"


def test_every_choice_leaves_paths_beyond_the_warm_up() -> None:
    assert all(paths > se.STRATEGIES["ddc"].warmup for _, paths, _ in CHOICES)


def test_sentences() -> None:
    result = se.compare(BUILTIN_POOL, ["sc", "ac", "ddc", "sure"], paths=32)
    output = demo_summary(result)
    assert output.startswith(
        f"Plain voting (sc) was right on {result.rows[0].accuracy:.0%} of these 50 questions; ddc on "
    )
    assert output.endswith("times fewer tokens; with so few questions, differences of a few points are chance.")
    assert demo_summary(se.compare(BUILTIN_POOL, ["sc", "ac"], paths=8)).count("ac on ") == 1
    out = se.replay([se.RecordedPath("5", [0.5], [5.0])] * 3, "sc")
    assert answer_lines(out, "5", True, 1.0).startswith("Answer: 5 (right).")
    assert answer_lines(out, "6", False, 1.0).startswith("Answer: 5 (wrong, it is 6).")
    none = se.replay([se.RecordedPath(None, [0.5], [5.0])], "sc")
    assert answer_lines(none, "6", False, 1.0).startswith("No answer (it is 6).")


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


def test_a_model_of_ones_own(tmp_path: Path) -> None:
    done = run("ask", "What is (3+4)*12-7?", "--model", str(reasoner.FILE), "-s", "sc", "--paths", "4", "--template",
               "{question}", "--max-path-tokens", "200")  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert "Answer: 77" in done.stdout
    questions = tmp_path / "questions.jsonl"
    questions.write_text('{"id": "1", "question": "What is 3+4?", "gold": "7"}\n')
    pool = tmp_path / "pool.parquet"
    done = run("record", str(questions), "-o", str(pool), "--paths", "4")
    assert done.returncode == 0, done.stderr
    info = se.Pool(pool).info
    assert (info.model, info.engine, info.window) == (reasoner.NAME, "local", reasoner.card().window)
    assert info.prompt == reasoner.card().template


def test_the_whole_demo(tmp_path: Path) -> None:
    pool = tmp_path / "pool.parquet"
    done = run("demo", "--json", "--seed", "4", "--seconds", "1", "--keep", str(pool))
    assert done.returncode == 0, done.stderr
    output = json.loads(done.stdout)
    assert [one["level"] for one in output["live"]] == [1, 3, 5]
    assert output["live"][0]["right"]
    rows = {row["strategy"]: row for row in output["comparison"]["pools"][0]["rows"]}
    assert list(rows) == ["sc", "ac", "deepconf-low", "ddc", "sure"]
    assert rows["sure"]["tokens"] < rows["sc"]["tokens"]
    assert len(list(se.Pool(pool))) == rows["sc"]["questions"]
    again = run("demo", "--keep", str(pool))
    assert (again.returncode, "exists already" in again.stderr) == (2, True)


def test_ctrl_c_shows_the_results_so_far() -> None:
    with subprocess.Popen(
        command("demo"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=CLEAN | {"PYTHONUNBUFFERED": "1"},
    ) as process:  # fmt: skip
        assert process.stdout is not None
        while not process.stdout.readline().startswith("Answer: "):
            pass
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Interrupted. The results so far:" in output
    assert "Traceback" not in errors
