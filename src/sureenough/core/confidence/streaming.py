"""One path while it grows: O(1) a token, the same numbers as `windows.scan` to the last bit.

The current block's sums run forward; when a block of L tokens is full, its sums are run backward once, so
that any later window is `rest of the last block` + `head of this one` (amortised constant, no drift).
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf

import numpy as np

from sureenough.core.confidence.instability import ILL_CONDITIONED, Floats, instability_from_sums, instability_of_window


class Monitor:
    """Group peak, group conf and instability of the latest window of one growing path."""

    __slots__ = (
        "_conf", "_d", "_dd", "_dv", "_last", "_lift", "_lowest", "_old", "_p", "_peak",
        "_rest_d", "_rest_dd", "_rest_dv", "_rest_p", "_rest_vv", "_shift", "_vv", "conf", "tokens", "window",
    )  # fmt: skip

    def __init__(self, window: int) -> None:
        self.window = window
        self.tokens = 0
        self.conf = 0.0  # group conf of the latest full window
        self._lowest = inf
        self._conf: list[float] = []  # the block being filled
        self._peak: list[float] = []
        self._old: list[float] = []  # the full block before it
        none: Mapping[int, float] | list[float] = {window: 0.0}  # no block before: only whole blocks are windows
        self._rest_d = self._rest_dd = self._rest_dv = self._rest_vv = self._rest_p = none
        self._d = self._dd = self._dv = self._vv = self._p = 0.0
        self._shift = self._lift = self._last = 0.0

    def push(self, peak: float, conf: float) -> bool:
        """Take one token; True from the L-th on, when a full window stands behind it."""
        size = self.window
        at = len(self._conf)
        if at == 0:  # the path's first token
            self._shift = self._last = conf
            self._lift = peak
        elif at == size:
            self._turn()
            at = 0
        d = conf - self._shift
        v = conf - self._last
        self._last = conf
        self._d = total = self._d + d
        self._dd += d * d
        self._dv += d * v
        self._vv += v * v
        self._p += peak - self._lift
        self._conf.append(conf)
        self._peak.append(peak)
        self.tokens += 1
        if self.tokens < size:
            return False
        self.conf = mean = (total + self._rest_d[at + 1] + size * self._shift) / size
        if mean < self._lowest:
            self._lowest = mean
        return True

    @property
    def peak(self) -> float:
        """Group peak of the latest full window."""
        size = self.window
        return (self._p + self._rest_p[len(self._conf)] + size * self._lift) / size

    def risk(self, eta: float) -> float:
        """Structural instability R of the latest full window."""
        at, size = len(self._conf), self.window
        dd = self._dd + self._rest_dd[at]
        if size < 2 or dd == 0.0:
            return 0.0
        before = self._old[at - 1] if self._old else self._conf[0]
        d, rise = self._d + self._rest_d[at], self._last - before
        a = dd - d * d / size
        if a <= ILL_CONDITIONED * dd:
            noise, fall = instability_of_window(self._old[at:] + self._conf, before)
        else:
            b = self._dv + self._rest_dv[at] - d * rise / size
            noise, fall = instability_from_sums(a, b, self._vv + self._rest_vv[at], rise)
        return noise + eta * fall

    @property
    def lowest(self) -> float:
        """C_path so far: of the full windows, or of the one short window there is; 0 with no token."""
        return self._lowest if self.tokens >= self.window else self._short()

    @property
    def tail(self) -> float:
        """Group confidence of the last window, of whatever length; 0 with no token."""
        return self.conf if self.tokens >= self.window else self._short()

    def _short(self) -> float:
        n = self.tokens
        return (self._d + n * self._shift) / n if n else 0.0

    def _turn(self) -> None:
        """The block is full: run its sums backward, shifted by its last token, and open the next one."""
        conf, peak = np.array(self._conf), np.array(self._peak)
        before = self._old[-1] if self._old else self._conf[0]
        self._shift, self._lift = self._conf[-1], self._peak[-1]
        d = conf - self._shift
        v = np.diff(conf, prepend=before)
        self._rest_d, self._rest_dd, self._rest_dv = _rests(d), _rests(d * d), _rests(d * v)
        self._rest_vv, self._rest_p = _rests(v * v), _rests(peak - self._lift)
        self._d = self._dd = self._dv = self._vv = self._p = 0.0
        self._old, self._conf, self._peak = self._conf, [], []


def _rests(values: Floats) -> list[float]:
    """rests[i] = values[i] + ... + values[-1], summed from the end; one more entry, 0, for none of them."""
    sums: list[float] = np.cumsum(values[::-1])[::-1].tolist()
    sums.append(0.0)
    return sums
