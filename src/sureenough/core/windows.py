"""All windows of a finished path at once: group peak, group conf and instability, in O(n).

A window is the tail of one block of L tokens plus the head of the next. Tails and heads are running sums
inside their block, shifted by the confidence just before it, so no large numbers are subtracted from each
other; `monitor.Monitor` does the same one token at a time and arrives at the same bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from sureenough.core.trend import Floats, direct, shapes


@dataclass(frozen=True, slots=True, eq=False)
class Windows:
    """Values of every window of one path, in order; one window where the path is shorter than L."""

    tokens: int
    window: int
    peak: Floats
    conf: Floats
    noise: Floats
    fall: Floats
    lowest: float  # C_path: the lowest group confidence; 0 for an empty path
    tail: float  # group confidence of the last window; 0 for an empty path

    @property
    def watched(self) -> bool:
        """Whether the path reached a full window, from which on gates may close."""
        return self.tokens >= self.window

    def risk(self, eta: float) -> Floats:
        """Structural instability R of every window."""
        return self.noise + eta * self.fall


_NONE: Final = np.empty(0)


def scan(peak: Floats, conf: Floats, window: int) -> Windows:
    """Every window of a recorded path; `peak` and `conf` are float64 arrays of equal length."""
    tokens = len(conf)
    if tokens == 0:
        return Windows(0, window, _NONE, _NONE, _NONE, _NONE, 0.0, 0.0)
    size = min(window, tokens)
    blocks = -(-tokens // size)
    padding = (0, blocks * size - tokens)
    confs = np.pad(conf, padding).reshape(blocks, size)
    peaks = np.pad(peak, padding).reshape(blocks, size)
    speed = np.pad(np.diff(conf, prepend=conf[0]), padding).reshape(blocks, size)
    shift = np.concatenate((conf[:1], confs[:-1, -1]))
    lift = np.concatenate((peak[:1], peaks[:-1, -1]))

    d = _slide(confs, shift, tokens)
    p = _slide(peaks, lift, tokens)
    dd, dv = _slide_products(confs, speed, shift, tokens)
    vv = _slide(speed * speed, np.zeros(blocks), tokens)
    count = tokens - size + 1
    # A window that ends at offset o of block j is shifted by what stood before block j.
    owner = (np.arange(count) + size - 1) // size
    before = np.concatenate((conf[:1], conf[: count - 1]))
    rise = conf[size - 1 :] - before
    noise, fall, weak = shapes(size, d, dd, dv, vv, rise)
    for i in np.flatnonzero(weak):
        noise[i], fall[i] = direct(conf[i : i + size], float(before[i]))
    if size == 1:
        noise[:] = fall[:] = 0.0
    mean_peak, mean_conf = (p + size * lift[owner]) / size, (d + size * shift[owner]) / size
    lowest, tail = float(mean_conf.min()), float(mean_conf[-1])
    return Windows(tokens, window, mean_peak, mean_conf, noise, fall, lowest, tail)


def _slide(values: Floats, shift: Floats, tokens: int) -> Floats:
    """Sums over all windows of `values - shift`, the shift being that of the window's last block."""
    heads = values - shift[:, None]
    tails = values[:-1] - shift[1:, None]
    return _join(heads, tails, tokens)


def _slide_products(confs: Floats, speed: Floats, shift: Floats, tokens: int) -> tuple[Floats, Floats]:
    """Sums over all windows of d*d and d*v."""
    heads = confs - shift[:, None]
    tails = confs[:-1] - shift[1:, None]
    return _join(heads * heads, tails * tails, tokens), _join(heads * speed, tails * speed[:-1], tokens)


def _join(heads: Floats, tails: Floats, tokens: int) -> Floats:
    """Running sums inside blocks, put together: tail of one block plus head of the next."""
    blocks, size = heads.shape
    sums = np.cumsum(heads, axis=1)
    if blocks > 1:
        rest = np.cumsum(tails[:, ::-1], axis=1)[:, ::-1]
        sums[1:, :-1] += rest[:, 1:]
    return sums.reshape(-1)[size - 1 : tokens]
