"""`sureenough answers` as a user types it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import printed, refused, sureenough


@pytest.mark.parametrize(
    ("one", "two", "says"),
    [("1/2", r"\frac12", "same"), ("-1", "1", "different")],
)
def test_two_answers(one: str, two: str, says: str) -> None:
    text = printed("answers", one, two)
    assert text.startswith(says)
    assert f"{one}  ->  " in text


def test_as_json() -> None:
    told = json.loads(printed("answers", "--json", "0.5", "1/2"))
    assert told["same"] is True
    assert [k["kind"] for k in told["keys"]] == ["number", "number"]


def test_extraction_from_a_file_and_from_standard_input(tmp_path: Path) -> None:
    text = tmp_path / "reply.txt"
    text.write_text(r"<think>\boxed{3}</think> So it is \boxed{\frac{1}{2}}.")
    assert sureenough("answers", "--extract", str(text)).stdout == "\\frac{1}{2}\n"
    done = sureenough("answers", "--extract", "-", "--kind", "choice", given="The answer is (C).")
    assert (done.returncode, done.stdout) == (0, "C\n")


def test_standard_input_that_is_not_text_or_closed() -> None:
    done = sureenough("answers", "--extract", "-", given=b"\xff \\boxed{5}")
    assert (done.returncode, done.stdout) == (0, "5\n")
    closed = subprocess.run(["sh", "-c", f"{sys.executable} -m sureenough answers --extract - <&-"],
                            capture_output=True, text=True, timeout=60, check=False)  # fmt: skip
    assert closed.returncode == 2
    assert "standard input is closed" in closed.stderr


def test_no_answer_is_exit_code_one(tmp_path: Path) -> None:
    text = tmp_path / "reply.txt"
    text.write_text("I do not know.")
    done = sureenough("answers", "--extract", str(text))
    assert (done.returncode, done.stdout) == (1, "no answer\n")
    assert json.loads(sureenough("answers", "--json", "--extract", str(text)).stdout) == {"answer": None}


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["1"], "give two answers"),
        (["1", "2", "3"], "give two answers"),
        (["1", "2", "--extract", "x"], "give two answers"),
        (["--extract", "nowhere.txt"], "cannot read nowhere.txt"),
        (["--extract", "-", "--kind", "poem"], "kind"),
        (["--extract", "-", "--fallback", "guess"], "fallback"),
    ],
)
def test_bad_words(words: list[str], says: str) -> None:
    assert says in refused("answers", *words)
