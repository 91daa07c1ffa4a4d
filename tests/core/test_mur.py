"""MUR against a plain implementation of its rule, with all samples given."""

from __future__ import annotations

from collections.abc import Callable
from math import exp
from random import Random

import pytest

from sureenough.core.search import LONGEST_REST, Continuation, Mur, Round, SampleLimits
from tests.core.searching import Samples, line, line_feeds, sampling, searched, toy

ENDS, GOES_ON = line(""), line("x", complete=False)


def scripted(replies: list[Continuation]) -> tuple[Samples, list[tuple[str, int]]]:
    """A model that replies in this order, and the beginnings and limits that it was given."""
    given, remaining = list[tuple[str, int]](), iter(replies)

    def samples(beginning: str, limits: SampleLimits, count: int) -> list[Continuation]:
        given.append((beginning, limits.max_tokens))
        return [next(remaining) for _ in range(count)]

    return samples, given


def test_an_unlikely_line_is_sampled_again() -> None:
    """After the first line the average is a tenth of its log-probability: exp(0.1 ln 0.5) = 0.93, of which 90%."""
    others = [line("c", 0.3), line("d", 0.7), line("e", 0.6), line("f", 0.2)]
    samples, given = scripted([line("a", 0.5), GOES_ON, line("b", 0.8), *others, GOES_ON, line("g", 0.99), ENDS])
    assert searched(Mur(), samples, Random(0).random) == ("a\nd\ng", 3)
    lines = [("", 2048), ("a", 1), *[("a\n", 2048)] * 5, ("a\nd", 1), ("a\nd\n", 2048), ("a\nd\ng", 1)]
    assert given == lines


def test_the_first_line_and_likely_ones_are_kept() -> None:
    samples, given = scripted([line("a", 0.01), GOES_ON, line("b", 0.9), ENDS])
    assert searched(Mur(), samples, Random(0).random) == ("a\nb", 2)
    assert len(given) == 4


def test_blank_lines_are_no_steps_and_do_not_go_on_forever() -> None:
    samples, given = scripted([line(""), GOES_ON] * 8 + [line("rest")])
    assert searched(Mur(max_steps=2), samples, Random(0).random)[0] == "\n" * 8 + "rest"
    assert given[-1] == ("\n" * 8, LONGEST_REST)


def test_a_line_that_is_cut_goes_on_and_a_path_at_its_limit_ends() -> None:
    samples, _ = scripted([line("a", complete=False), line("", complete=False)])
    search = Mur().search(None)  # type: ignore[arg-type]  # it draws nothing
    search.send(None)
    search.send(samples("", SampleLimits(1, 0.6), 1))
    with pytest.raises(StopIteration) as end:
        search.send(samples("", SampleLimits(1, 0.6), 1))
    assert end.value.value.truncated


def reference(sample: Callable[[str, SampleLimits], Continuation], method: Mur) -> str:
    """The rule as the notes give it, on texts alone."""
    text, m, step = "", 0.0, 0
    limits = SampleLimits(method.line_tokens, 0.6, "\n")
    for _ in range(4 * method.max_steps):
        reply = sample(text, limits)
        if step > 0 and reply.text.strip() and exp(reply.score) < exp(m) * 0.9:
            reply = max([sample(text, limits) for _ in range(method.candidates)], key=lambda one: one.score)
        if not reply.complete and not reply.text:
            return text
        if reply.complete:
            after = None if reply.stop_text is not None else sample(text + reply.text, SampleLimits(1, 0.6))
            if reply.stop_text == "" or (after is not None and after.complete and not after.text):
                return text + reply.text
        text += reply.text + (line_feeds(reply) if reply.complete else "")
        if reply.text.strip():
            m, step = 0.9 * m + 0.1 * reply.score, step + 1
        if step == method.max_steps:
            break
    return text + sample(text, SampleLimits(8096, 0.6)).text


def test_the_token_after_a_line_is_not_sampled_beyond_the_limit_of_a_path() -> None:
    """The sample after a line says how many tokens come before it: the line is not part of the path yet."""
    search = Mur().search(None)  # type: ignore[arg-type]  # it draws nothing
    sizes = list[int]()
    reply = None
    for received in (line("abc"), GOES_ON, line("de", 0.99), GOES_ON, line("f", 0.99)):
        asked = search.send(reply)
        assert isinstance(asked, Round)
        sizes.append(asked.samples[0].tokens)
        reply = [received]
    assert sizes == [0, 3, 0, 5, 0], "0: as many as the path has"


@pytest.mark.parametrize(
    ("stop_text", "path", "requests"),
    [("\n", "a\nb", 2), ("\n\n", "a\n\nb", 2), ("\nx", "a\nb", 2), ("\n\n #", "a\n\nb", 2), ("", "a", 1)],
)
def test_no_token_is_sampled_after_a_line_if_it_is_known_how_it_ended(stop_text: str, path: str, requests: int) -> None:
    """The line feeds of its last token are part of the path; other text is the beginning of another line."""
    samples, given = scripted([line("a", stop_text=stop_text), line("b", 0.99, stop_text="")])
    assert searched(Mur(), samples, Random(0).random)[0] == path
    assert len(given) == requests


@pytest.mark.parametrize("told", [False, True])
@pytest.mark.parametrize("seed", range(40))
def test_mur_is_what_the_rule_says(seed: int, told: bool) -> None:
    method = Mur(max_steps=4, candidates=3, line_tokens=9)
    numbers = iter(range(seed * 10_000, 10**9))
    expected = reference(lambda text, limits: toy(text, limits, next(numbers), told=told), method)
    text, tokens = searched(method, sampling(seed, told=told), Random(seed).random)
    assert text == expected
    assert tokens >= 0
