"""The worked solutions that the built-in model learns from: every line of arithmetic in them holds."""

from __future__ import annotations

import re
from random import Random

import pytest
from arithmetic import FAMILIES, LEVELS
from working import HASTE, Writer, solve

from tests.problems.reckon import reckon

CHAIN = re.compile(r"(?<![\dx.*+=-])-?[\d(][\d+*/()=-]*\d(?![\dx])")


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("level", LEVELS)
def test_every_line_holds_and_the_box_is_right(level: int, family: str) -> None:
    rng, chains = Random(f"{level} {family}"), 0
    for _ in range(150):
        made = FAMILIES[family](rng, level)
        text = solve(rng, made)
        for chain in CHAIN.findall(text):
            if "=" in chain:
                assert len({reckon(part) for part in chain.split("=")}) == 1, (chain, text)
                chains += 1
        assert text.endswith(f"The answer is \\boxed{{{made.gold}}}.")
    assert chains > 150


@pytest.mark.parametrize("family", FAMILIES)
def test_haste_shows_less_working(family: str) -> None:
    rng = Random(family)
    tasks = [FAMILIES[family](rng, 5) for _ in range(50)]
    careful, hasty = (sum(len(Writer(Random(1), haste).solution(made)) for made in tasks) for haste in (0.0, 1.0))
    assert careful > 1.1 * hasty
    assert min(HASTE) < max(HASTE)
