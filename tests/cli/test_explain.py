"""`sureenough explain` as a user types it."""

from __future__ import annotations

import json

from tests.cli.test_replay import refused, sureenough


def test_one_question_in_sentences() -> None:
    done = sureenough("explain", "-q", "gsm8k-test-0138", "-s", "sure")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("Question gsm8k-test-0138, gold answer ")
    assert lines[1].startswith("Answer: ")
    assert any("points of vote share" in line for line in lines)


def test_by_place_and_as_json() -> None:
    told = json.loads(sureenough("explain", "-q", "2", "-s", "ddc", "--json").stdout)
    assert told["question"] == "gsm8k-test-0007"
    assert told["strategy"] == "ddc"
    assert told["tokens"]["total"] > 0


def test_without_words_it_takes_the_first() -> None:
    assert sureenough("explain").stdout.startswith("Question gsm8k-test-0000")


def test_bad_words() -> None:
    assert "did you mean 'gsm8k-test-0007'?" in refused("explain", "-q", "gsm8k-test-007")
    assert "it has 50, from" in refused("explain", "-q", "????")
    assert "did you mean 'ddc'" in refused("explain", "-s", "dcc")
    assert "no such file" in refused("explain", "nowhere.parquet")
