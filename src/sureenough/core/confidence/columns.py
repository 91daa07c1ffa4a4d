"""Constants and array columns that the window formulas share.

There are four implementations, which must agree to the last bit: `array` (whole paths), `streaming` (one growing path),
`batched` (one token of many paths, numpy) and engines/vllm/kernels/monitor_step.py (the same on a GPU, Triton).

All of them sum over a window, with d = conf - shift, v = the change of conf from token to token (velocity), and shift =
the confidence just before the block in which the window ends.
"""

from __future__ import annotations

from typing import Final

LOGPROB_FLOOR: Final = -100.0
"""Log-probabilities of minus infinity, NaN, and sentinels such as -9999 count as this."""

ILL_CONDITIONED: Final = 1e-6
"""If a window's centred sum of squares is below this share of the shifted one, subtraction has cancelled too many
digits, and the window is summed again in two passes."""

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

# Tiers as numbers: no test has failed yet, or the first one that did.
TIER_NONE, TIER_DROP, TIER_RISK = 0.0, 1.0, 2.0
