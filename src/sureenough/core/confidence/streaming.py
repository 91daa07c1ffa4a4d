"""One path while it grows: O(1) per token, the same numbers as `array.scan` to the last bit.

The current block's sums run forward. When a block of L tokens is full, its suffix sums are formed once, so that any
later window is the rest of the last block plus the head of this one (amortised constant time, no drift).
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf

import numpy as np

from sureenough.core.confidence.columns import ILL_CONDITIONED
from sureenough.core.confidence.instability import instability_from_sums, instability_of_window, suffix_sums


class Monitor:
    """Group peak, group conf and instability of the latest window of one growing path."""

    __slots__ = (
        "_conf", "_conf_shift", "_d", "_dd", "_dv", "_last", "_lowest", "_p", "_peak", "_peak_shift", "_previous_conf",
        "_suffix_d", "_suffix_dd", "_suffix_dv", "_suffix_p", "_suffix_vv", "_total_conf", "_total_peak", "_trend",
        "_vv", "conf", "tokens", "window",
    )  # fmt: skip

    def __init__(self, window: int, trend_window: int = 0) -> None:
        """The trend is measured over the same window if `trend_window` is 0."""
        self.window = window
        self._trend = None if trend_window in (0, window) else Monitor(trend_window)
        self.tokens = 0
        self.conf = 0.0  # group conf of the latest full window
        self._lowest = inf
        self._conf: list[float] = []  # the block being filled
        self._peak: list[float] = []
        self._previous_conf: list[float] = []  # the full block before it
        # Before the first block ends, only the window that is this whole block is asked for.
        nothing: Mapping[int, float] | list[float] = {window: 0.0}
        self._suffix_d = self._suffix_dd = self._suffix_dv = self._suffix_vv = self._suffix_p = nothing
        self._d = self._dd = self._dv = self._vv = self._p = 0.0
        self._conf_shift = self._peak_shift = self._last = 0.0
        self._total_peak = self._total_conf = 0.0  # of all tokens

    def push(self, peak: float, conf: float) -> bool:
        """Take one token; True from the L-th on, when there is a full window."""
        size = self.window
        position = len(self._conf)
        if position == 0:  # the path's first token
            self._conf_shift = self._last = conf
            self._peak_shift = peak
        elif position == size:
            self._end_block()
            position = 0
        d = conf - self._conf_shift
        v = conf - self._last
        self._last = conf
        self._d = total = self._d + d
        self._dd += d * d
        self._dv += d * v
        self._vv += v * v
        self._p += peak - self._peak_shift
        self._total_peak += peak
        self._total_conf += conf
        self._conf.append(conf)
        self._peak.append(peak)
        self.tokens += 1
        if self._trend is not None:
            self._trend.push(peak, conf)
        if self.tokens < size:
            return False
        self.conf = mean = (total + self._suffix_d[position + 1] + size * self._conf_shift) / size
        if mean < self._lowest:
            self._lowest = mean
        return True

    @property
    def peak(self) -> float:
        """Group peak of the latest full window."""
        size = self.window
        return (self._p + self._suffix_p[len(self._conf)] + size * self._peak_shift) / size

    def risk(self, eta: float) -> float:
        """Structural instability R of the latest full window; minus infinity before the first of another size."""
        if self._trend is not None:
            return self._trend.risk(eta) if self._trend.tokens >= self._trend.window else -inf
        position, size = len(self._conf), self.window
        dd = self._dd + self._suffix_dd[position]
        if size < 2 or dd == 0.0:
            return 0.0
        before = self._previous_conf[position - 1] if self._previous_conf else self._conf[0]
        d, rise = self._d + self._suffix_d[position], self._last - before
        a = dd - d * d / size
        if a <= ILL_CONDITIONED * dd:
            isotropy, penalty = instability_of_window(self._previous_conf[position:] + self._conf, before)
        else:
            b = self._dv + self._suffix_dv[position] - d * rise / size
            isotropy, penalty = instability_from_sums(a, b, self._vv + self._suffix_vv[position], rise)
        return isotropy + eta * penalty

    @property
    def lowest(self) -> float:
        """C_path so far: of the full windows, or of the one short window there is; 0 for an empty path."""
        return self._lowest if self.tokens >= self.window else self._short_mean()

    @property
    def tail(self) -> float:
        """Group confidence of the last window, full or short; 0 for an empty path."""
        return self.conf if self.tokens >= self.window else self._short_mean()

    @property
    def mean_peak(self) -> float:
        """Over all tokens, summed in their order; 0 for an empty path."""
        return self._total_peak / self.tokens if self.tokens else 0.0

    @property
    def mean_conf(self) -> float:
        """Over all tokens, summed in their order; 0 for an empty path."""
        return self._total_conf / self.tokens if self.tokens else 0.0

    def _short_mean(self) -> float:
        n = self.tokens
        return (self._d + n * self._conf_shift) / n if n else 0.0

    def _end_block(self) -> None:
        """Form the suffix sums of the block, which is full, and begin the next one."""
        before = self._previous_conf[-1] if self._previous_conf else self._conf[0]
        self._conf_shift, self._peak_shift = self._conf[-1], self._peak[-1]
        sums = suffix_sums(np.array(self._conf), np.array(self._peak), before).tolist()
        self._suffix_d, self._suffix_dd, self._suffix_dv, self._suffix_vv, self._suffix_p = sums
        self._d = self._dd = self._dv = self._vv = self._p = 0.0
        self._previous_conf, self._conf, self._peak = self._conf, [], []
