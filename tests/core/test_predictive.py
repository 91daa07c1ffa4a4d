"""Predictive decoding against a plain implementation of the paper's rules, with all draws given."""

from __future__ import annotations

from collections.abc import Callable
from math import exp, log
from random import Random

import numpy as np
import pytest

from sureenough.core.events import Token
from sureenough.core.search import Continuation, Predictive, SampleLimits, lines_of
from tests.core.searching import Samples, line, pick, sampling, searched


def reference_predictive(
    samples: Samples, uniform: Callable[[], float], *, k: int, lookahead: int, tau: float, steps: int, limit: int
) -> str:
    """Ma et al., with whole texts instead of tokens: every rollout so far that begins with the path has a say."""
    prefix, pool = "", []  # of whole texts as lists of lines, the last one marked if it ends the path, and values
    history: list[str] = []  # lines without the line feeds around them, by which they are compared
    for _ in range(steps):
        for rollout in samples(prefix, SampleLimits(limit, 0.8), k):
            lines, value = reference_lines(rollout, lookahead)
            pool.append(([*history, *lines], value))
        options: list[tuple[str, float]] = []
        for lines, value in pool:
            if len(lines) > len(history) and [one.strip("\n") for one in lines[: len(history)]] == history:
                options.append((lines[len(history)], value))
        if not options:
            return prefix
        if tau == 0:
            action = options[int(np.argmax([value for _, value in options]))][0]
        else:
            action = options[pick([exp(value / tau) for _, value in options], uniform())][0]
        prefix += action.removesuffix("$")
        if action.endswith("$"):
            return prefix
        history.append(action.strip("\n"))
    return prefix + samples(prefix, SampleLimits(3000, 0.8), 1)[0].text


def reference_lines(rollout: Continuation, most: int) -> tuple[list[str], float]:
    """Lines with the line feeds after them, the last one marked with $ if the path ends there; and the value."""
    lines: list[str] = []
    for letter in rollout.text:
        new = not lines or (lines[-1].endswith("\n") and letter != "\n" and lines[-1].strip("\n"))
        lines = [*lines, letter] if new else [*lines[:-1], lines[-1] + letter]
    if lines and not lines[-1].strip("\n"):
        lines.pop()
    if not rollout.complete and len(lines) > 1 and not lines[-1].endswith("\n"):
        lines.pop()
    ends = rollout.complete and "".join(lines) == rollout.text
    used = lines[:most]
    logprobs, at = [], 0
    for token, logprob in zip(rollout.tokens, rollout.logprobs, strict=True):
        if at < len("".join(used)) or "".join(used) == rollout.text:
            logprobs.append(logprob)
        at += len(token.text)
    if ends and len(used) == len(lines):
        used[-1:] = [one + "$" for one in used[-1:]]
    return used, exp(sum(logprobs) / len(logprobs)) if logprobs and used else 1.0


@pytest.mark.parametrize("tau", [0.0, 0.05, 0.1])
@pytest.mark.parametrize("seed", range(40))
def test_predictive_decoding_is_the_papers(seed: int, tau: float) -> None:
    method = Predictive(rollouts=4, lookahead=3, select=tau, max_steps=6, rollout_tokens=12)
    text, tokens = searched(method, sampling(seed), Random(seed).random)
    expected = reference_predictive(
        sampling(seed), Random(seed).random, k=4, lookahead=3, tau=tau, steps=6, limit=12
    )  # fmt: skip
    assert text == expected
    assert (tokens == 0) <= (text == "")


@pytest.mark.parametrize(
    ("rollout", "lines", "ends"),
    [
        (line("a\nb\nc"), ["a\n", "b\n"], [False, False]),
        (line("a\nb"), ["a\n", "b"], [False, True]),
        (line("a\nb", complete=False), ["a\n"], [False]),  # the limit cut the second line
        (line("abc", complete=False), ["abc"], [False]),  # no line feed came before the limit
        (line("\n\na\n\nb\n"), ["\n\na\n\n", "b\n"], [False, True]),
        (line(""), [], []),
        (line("\n\n"), [], []),
    ],
)
def test_the_lines_of_a_rollout(rollout: Continuation, lines: list[str], ends: list[bool]) -> None:
    found, _ = lines_of(rollout, 2)
    assert [one.growth.text for one in found] == lines
    assert [one.ends for one in found] == ends
    assert [len(one.growth.tokens) for one in found] == [len(text) for text in lines]


@pytest.mark.parametrize("text", ["\n" * 2_000_000, "\n" * 1_000_000 + "x\n" + "\n" * 1_000_000])
def test_two_million_line_feeds_are_read_in_one_pass(text: str) -> None:
    """With one pass per line feed, there would be 2,000 billion steps."""
    lines, _ = lines_of(Continuation((Token(text, 0.5, 9.0),), (-1.0,)), 8)
    assert [one.growth.text for one in lines] == ([text] if "x" in text else [])


def test_a_rollout_with_many_lines_is_read_in_one_pass() -> None:
    """With one pass over its tokens per line, there would be 20 billion steps."""
    lines, score = lines_of(line("x\n" * 100_000, 0.5), 100_000)
    assert len(lines) == 100_000
    assert score == pytest.approx(log(0.5))
    assert [one.growth.text for one in lines[:2]] == ["x\n", "x\n"]
    assert [one.ends for one in lines[-2:]] == [False, True]


def test_past_rollouts_have_a_say_while_they_begin_with_the_path() -> None:
    """The second line of the best rollout is better than all that is sampled after its first."""
    first = [line("good\nplan\nend", 0.9), line("bad\n", 0.5)]
    second = [line("weak\n", 0.2), line("weaker\n", 0.1)]
    rounds = iter([first, second, [line("end", 0.1), line("stop", 0.2)]])
    replies: list[Continuation] = []

    def samples(beginning: str, limits: SampleLimits, count: int) -> list[Continuation]:
        replies[:] = replies or next(rounds)
        return [replies.pop(0)]

    assert searched(Predictive(rollouts=2), samples, Random(0).random)[0] == "good\nplan\nend"


def test_blank_lines_do_not_make_another_line() -> None:
    """A rollout has a say in the line after it, although its blank line is not part of the path."""
    replies = [line("x=1\n", 0.9, complete=False), line("x=1\n\nplan", 0.8), *[line("end", 0.1)] * 9]
    assert searched(Predictive(rollouts=2), lambda *_: [replies.pop(0)], lambda: 0.7)[0] == "x=1\nplan"
