"""Two numbers per token: the rules as a table, and as laws."""

from __future__ import annotations

from math import exp, inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sureenough.engines.openai.logprobs import FLOOR, floored, token_signals
from sureenough.errors import MissingLogprobs

ANY = st.one_of(st.floats(), st.sampled_from([-inf, nan, -9999.0, 0.0, -0.0, -100.0]))


@pytest.mark.parametrize(
    ("logprobs", "k", "peak", "conf"),
    [
        ([-1.0, -2.0], 2, exp(-1), 1.5),
        ([-2.0, -1.0], 2, exp(-1), 1.5),  # unsorted
        ([-7.0, -1.0, -2.0], 2, exp(-1), 1.5),  # the sampled token first, outside the top k
        ([-1.0, -2.0, -7.0], 2, exp(-1), 1.5),  # or last
        ([-1.0, -1.0, -1.0], 2, exp(-1), 1.0),
        ([0.0, -inf], 2, 1.0, 50.0),
        ([0.0, -9999.0], 2, 1.0, 50.0),
        ([0.0, nan], 2, 1.0, 50.0),
        ([nan, -1.0], 2, exp(-1), 50.5),
        ([nan, nan], 2, exp(-100), 100.0),
        ([1e-7, -2.0], 2, 1.0, 1.0),  # rounding above certainty
        ([-3.0], 1, exp(-3), 3.0),
        ([nan, -1.0, -2.0], 2, exp(-1), 1.5),
    ],
)
def test_the_rules(logprobs: list[float], k: int, peak: float, conf: float) -> None:
    assert token_signals(logprobs, k) == pytest.approx((peak, conf), rel=1e-12)


@given(st.lists(ANY, min_size=20, max_size=24))
def test_it_is_the_mean_of_the_k_largest_after_flooring(logprobs: list[float]) -> None:
    largest = sorted(map(floored, logprobs))[-20:]
    assert token_signals(logprobs, 20) == pytest.approx((exp(largest[-1]), -sum(largest) / 20), rel=1e-12, abs=1e-12)


@given(st.lists(ANY, min_size=20, max_size=21), st.randoms())
def test_order_is_irrelevant_and_the_numbers_stay_in_range(logprobs: list[float], random: object) -> None:
    peak, conf = token_signals(logprobs, 20)
    assert 0.0 < peak <= 1.0
    assert 0.0 <= conf <= -FLOOR
    shuffled = logprobs[:]
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert token_signals(shuffled, 20) == pytest.approx((peak, conf), rel=1e-12, abs=1e-12)


def test_candidates_that_were_merged_count_as_the_smallest() -> None:
    """SGLang lists candidates by their text, and two bytes that are not text by themselves become one."""
    assert token_signals([-0.5, -3.0, -2.0], 4) == pytest.approx((exp(-0.5), (0.5 + 2.0 + 3.0 + 3.0) / 4))
    assert token_signals([-1.0] * 15, 20) == token_signals([-1.0] * 20, 20)


@pytest.mark.parametrize(
    ("got", "says"),
    [
        (0, "no log-probabilities"),
        (5, "only 5 candidates per token"),
        (14, "only 14 candidates per token"),
    ],
)
def test_too_few_candidates_name_the_fix(got: int, says: str) -> None:
    with pytest.raises(MissingLogprobs, match=says) as raised:
        token_signals([-1.0] * got, 20)
    assert "--max-logprobs 20" in str(raised.value)
    assert "sc, ac, esc" in str(raised.value)
