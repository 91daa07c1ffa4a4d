"""Steps of watched paths: the columns of their results, what a device keeps between them, and a step on a CPU.

Each path has a slot. A step receives the number of tokens that a path had before it and uses the state after that many
tokens; the last two states are kept. So a step can be repeated (vLLM discards what it samples in the middle of a long
prompt) and never has to be undone.
"""

from __future__ import annotations

from array import array
from typing import Any, Final, NamedTuple

from sureenough.core.confidence import Monitor
from sureenough.core.pruning import Gate
from sureenough.engines.watch.protocol import TIER_NONE, TIERS

TIER_NUMBERS: Final = {tier: number for number, tier in TIERS.items()}

# The sums of a block so far (running sums), and of the rest of the block before it (suffix sums).
SUM_D, SUM_DD, SUM_DV, SUM_VV, SUM_PEAK = range(5)
SUFFIX_COLUMNS: Final = 5

# What else is kept of a path from token to token, in the same row as its running sums.
CONF_SHIFT, PEAK_SHIFT, LAST_CONF, LOWEST, TIER = range(SUFFIX_COLUMNS, SUFFIX_COLUMNS + 5)
TOTAL_PEAK, TOTAL_CONF = range(SUFFIX_COLUMNS + 5, SUFFIX_COLUMNS + 7)
STATE_COLUMNS: Final = 12

# Rows of the last two blocks of a path. The block's parity, 0 or 1, is added.
CONF_BLOCKS, PEAK_BLOCKS = 0, 2
BLOCK_ROWS: Final = 4

GATE_TRUST, GATE_DROP, GATE_RISK, GATE_ETA = range(4)
GATE_COLUMNS: Final = 4

# What a step returns for each path: the token's own signals; C_path, tail, tier and the sums of all signals so far.
RESULT_PEAK, RESULT_CONF, RESULT_LOWEST, RESULT_TAIL, RESULT_TIER, RESULT_TOTAL_PEAK, RESULT_TOTAL_CONF = range(7)
RESULT_COLUMNS: Final = 7

END_LOGIT: Final = 1e20
"""The logit of an end token that must be sampled: all other probabilities become exactly 0, at any temperature. Types
that cannot hold it get their largest number."""


class BatchState(NamedTuple):
    """The state of all watched paths: tensors on one device."""

    states: Any  # after an even and an odd number of tokens; slot; running sums and the columns after them
    blocks: Any  # slot; conf of even and odd blocks, peak of even and odd blocks; position in the block
    suffixes: Any  # slot; suffix sums of the block before; position
    gates: Any  # slot; threshold
    windows: Any  # slot
    end_tokens: Any  # slot; the token that ends the request


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
