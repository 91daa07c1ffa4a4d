"""Steps of watched paths: the columns of their results, and a step on a CPU.

A step receives the number of tokens that a path had before it, so that it can be repeated: vLLM discards what it
samples in the middle of a long prompt.
"""

from __future__ import annotations

from array import array
from typing import Final

from sureenough.core.confidence import Monitor
from sureenough.core.pruning import Gate
from sureenough.engines.watch.protocol import TIER_NONE, TIERS

TIER_NUMBERS: Final = {tier: number for number, tier in TIERS.items()}

# What a step returns for each path: the token's own signals; C_path, tail, tier and the sums of all signals so far.
RESULT_PEAK, RESULT_CONF, RESULT_LOWEST, RESULT_TAIL, RESULT_TIER, RESULT_TOTAL_PEAK, RESULT_TOTAL_CONF = range(7)
RESULT_COLUMNS: Final = 7

END_LOGIT: Final = 1e20
"""The logit of an end token that must be sampled: all other probabilities become exactly 0, at any temperature. Types
that cannot hold it get their largest number."""


class HostPath:
    """A watched path on a CPU: core's own monitor, one token at a time."""

    def __init__(self, window: int, gate: Gate, end_token: int) -> None:
        self.end_token = end_token
        self._window, self._gate = window, gate
        self._begin()

    def _begin(self) -> None:
        self._signals = array("d")  # peak and conf of every token
        self._monitor, self.tier = Monitor(self._window), TIER_NONE
        self._totals = (0.0, 0.0)

    def push(self, tokens_before: int, peak: float, conf: float) -> list[float]:
        """Take a token, which may replace one that vLLM has discarded; the result columns."""
        if tokens_before < self._monitor.tokens:
            kept = self._signals[: 2 * tokens_before]
            self._begin()
            for signals in zip(kept[::2], kept[1::2], strict=True):
                self._take(*signals)
        self._take(peak, conf)
        return [peak, conf, self._monitor.lowest, self._monitor.tail, self.tier, *self._totals]

    def _take(self, peak: float, conf: float) -> None:
        self._signals.extend((peak, conf))
        self._totals = self._totals[0] + peak, self._totals[1] + conf
        if self._monitor.push(peak, conf) and self.tier == TIER_NONE:
            self.tier = TIER_NUMBERS[self._gate.tier(self._monitor)]
