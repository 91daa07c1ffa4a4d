"""The window formulas: group peak, group conf and instability of paths that have ended, and of one that grows.

There are three implementations, which must agree to the last bit: `scan` (whole paths) and `Monitor` (one growing path)
here, and vllm's `kernels/monitor_step` (one token of many paths, by Triton).

All of them sum over a window, with d = conf - shift, v = the change of conf from token to token (velocity), and shift =
the confidence just before the block in which the window ends.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, sqrt
from typing import Final

import numpy as np
from numpy.typing import NDArray

LOGPROB_FLOOR: Final = -100.0
"""Log-probabilities of minus infinity, NaN, and sentinels such as -9999 count as this."""

ILL_CONDITIONED: Final = 1e-6
"""If a window's centred sum of squares is below this share of the shifted one, subtraction has cancelled too many
digits, and the window is summed again in two passes."""

# Structural instability R of a window, from four sums instead of an eigendecomposition.
#
# With a = sum (conf-mean)^2, b = sum (conf-mean) v, c = sum v^2 the 2x2 covariance has its eigenvalues at (a + c ±
# h)/2, h = hypot(a-c, 2b), and the standard deviation cancels. R splits into a part that depends on the shape of the
# window alone and a penalty that eta multiplies:
#
#     R = isotropy + eta * penalty,   isotropy = 1 - h/(a+c),   penalty = (1 + (a-c)/h)/2 if confidence fell, else 0.
#
# The scalar and the array version perform the same IEEE operations in the same order, so that streaming and array
# replays take the same decisions to the last bit.

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


def instability_from_sums(a: float, b: float, c: float, rise: float) -> tuple[float, float]:
    """(isotropy, penalty) of a window with these centred sums."""
    if a + c <= 0.0:
        return 0.0, 0.0
    difference = a - c
    h = sqrt(difference * difference + 4.0 * b * b)
    isotropy = 1.0 - h / (a + c)
    penalty = (1.0 + difference / h) / 2.0 if rise < 0.0 and h > 0.0 else 0.0
    return isotropy, penalty


def instability_of_window(window: Sequence[float] | Floats, before: float | None) -> tuple[float, float]:
    """(isotropy, penalty) by two passes over the window: slower, for windows whose sums lost too many digits."""
    conf = np.asarray(window, dtype=np.float64)
    first = conf[0] if before is None else before
    if conf.min() == conf.max():
        return 0.0, 0.0
    d = conf - conf.mean()
    v = np.diff(conf, prepend=first)
    return instability_from_sums(float(d @ d), float(d @ v), float(v @ v), float(conf[-1] - first))


def instability_from_arrays(
    n: Floats, d: Floats, dd: Floats, dv: Floats, vv: Floats, rise: Floats
) -> tuple[Floats, Floats, Bools]:
    """(isotropy, penalty) of many windows, and a mask of those that need `instability_of_window`."""
    a = dd - d * d / n
    b = dv - d * rise / n
    ill_conditioned = (a <= ILL_CONDITIONED * dd) & (dd > 0.0) & (n > 1.0)
    difference = a - vv
    h = np.sqrt(difference * difference + 4.0 * b * b)
    total = a + vv
    with np.errstate(divide="ignore", invalid="ignore"):
        isotropy = 1.0 - h / total
        penalty = (1.0 + difference / h) / 2.0
    flat = (dd == 0.0) | (total <= 0.0) | (n < 2.0)
    isotropy[flat] = 0.0
    penalty[flat | (rise >= 0.0) | (h == 0.0)] = 0.0
    return isotropy, penalty, ill_conditioned


# All windows of finished paths at once: group peak, group conf and instability, in O(n).
#
# A window is the tail of one block of L tokens plus the head of the next. Heads are running sums inside their block,
# tails are suffix sums, both shifted by the confidence just before the later block, so that large numbers are never
# subtracted from each other. `Monitor` does the same one token at a time, to the same bits.


@dataclass(frozen=True, slots=True, eq=False)
class Windows:
    """Values of every window of one path, in order; a path shorter than L has one window."""

    tokens: int
    window: int
    peak: Floats
    conf: Floats
    noise: Floats  # isotropy: the part of instability that depends on the window's shape alone
    fall: Floats  # penalty if confidence fell, which eta multiplies
    lowest: float  # C_path: the lowest group confidence; 0 for an empty path
    tail: float  # group confidence of the last window; 0 for an empty path
    mean_peak: float  # over all tokens, summed in their order; 0 for an empty path
    mean_conf: float
    _riskiest: dict[float, float] = field(default_factory=dict, repr=False)

    @property
    def watched(self) -> bool:
        """Whether the path reached a full window, from which on gates may close."""
        return self.tokens >= self.window

    def risk(self, eta: float) -> Floats:
        """Structural instability R of every window."""
        return self.noise + eta * self.fall

    def riskiest(self, eta: float) -> float:
        """The largest R, computed once per eta."""
        if eta not in self._riskiest:
            self._riskiest[eta] = float(self.risk(eta).max())
        return self._riskiest[eta]


def scan(peak: Floats, conf: Floats, window: int) -> Windows:
    """Every window of one recorded path; `peak` and `conf` are float64 arrays of equal length."""
    return scan_all([peak], [conf], window)[0]


def scan_all(peaks: Sequence[Floats], confs: Sequence[Floats], window: int) -> list[Windows]:
    """Every window of many paths, in a few array operations over all of them."""
    lengths = [len(conf) for conf in confs]
    if 0 in lengths:
        nothing = np.empty(0)
        empty = Windows(0, window, nothing, nothing, nothing, nothing, 0.0, 0.0, 0.0, 0.0)
        scanned = iter(scan_all([peak for peak in peaks if len(peak)], [conf for conf in confs if len(conf)], window))
        return [next(scanned) if length else empty for length in lengths]
    if not lengths:
        return []
    layout = _Layout(lengths, min(window, max(lengths)))  # a block longer than every path would only be padding
    conf, peak = layout.pad(confs), layout.pad(peaks)
    conf_shift, peak_shift = layout.before_blocks(conf), layout.before_blocks(peak)
    velocity = np.diff(conf, prepend=conf[0])
    velocity[layout.starts] = 0.0  # a path's first token

    blocks, v = conf.reshape(-1, layout.size), velocity.reshape(-1, layout.size)
    head, tail = blocks - conf_shift[:, None], blocks[:-1] - conf_shift[1:, None]
    d = layout.window_sums(head, tail)
    dd = layout.window_sums(head * head, tail * tail)
    dv = layout.window_sums(head * v, tail * v[:-1])
    vv = layout.window_sums(v * v, v[:-1] * v[:-1])
    peaks_by_block = peak.reshape(-1, layout.size)
    p = layout.window_sums(peaks_by_block - peak_shift[:, None], peaks_by_block[:-1] - peak_shift[1:, None])

    before = conf[layout.before]
    n = layout.window_sizes
    isotropy, penalty, ill_conditioned = instability_from_arrays(n, d, dd, dv, vv, conf[layout.ends] - before)
    for i in np.flatnonzero(ill_conditioned):
        end = layout.ends[i] + 1
        isotropy[i], penalty[i] = instability_of_window(conf[end - int(n[i]) : end], float(before[i]))
    block = layout.ends // layout.size  # a window is shifted by the value before the block in which it ends
    mean_peak = (p + n * peak_shift[block]) / n
    mean_conf = (d + n * conf_shift[block]) / n
    paths, first = list[Windows](), 0
    for signal, count, tokens in zip(confs, layout.counts, layout.spans, strict=True):
        at = slice(first, first := first + int(count))
        lowest_and_tail = float(mean_conf[at].min()), float(mean_conf[at][-1])
        means = _mean_in_order(peak[tokens]), _mean_in_order(conf[tokens])
        values = mean_peak[at], mean_conf[at], isotropy[at], penalty[at]
        paths.append(Windows(len(signal), window, *values, *lowest_and_tail, *means))
    return paths


class _Layout:
    """Paths laid out in blocks of `size` tokens, each path from the start of a block, and where their windows end."""

    def __init__(self, lengths: Sequence[int], size: int) -> None:
        tokens = np.array(lengths)
        blocks, sizes = -(-tokens // size), np.minimum(tokens, size)
        # Windows end at every token from the L-th on; a shorter path has one, which ends with the path.
        self.counts = tokens - sizes + 1
        self.size, self.blocks = size, int(blocks.sum())
        self.starts = size * (np.cumsum(blocks) - blocks)
        self.spans = [slice(start, start + length) for start, length in zip(self.starts, lengths, strict=True)]
        first_ends = self.starts + sizes - 1 - (np.cumsum(self.counts) - self.counts)
        self.ends = np.repeat(first_ends, self.counts) + np.arange(self.counts.sum())
        self.window_sizes: Floats = np.repeat(sizes, self.counts).astype(np.float64)
        self.before = np.maximum(self.ends - np.repeat(sizes, self.counts), np.repeat(self.starts, self.counts))

    def pad(self, signals: Sequence[Floats]) -> Floats:
        """All signals in one array, zeros up to the end of each path's last block."""
        flat = np.zeros(self.blocks * self.size)
        for span, signal in zip(self.spans, signals, strict=True):
            flat[span] = signal
        return flat

    def before_blocks(self, flat: Floats) -> Floats:
        """The value just before each block; before a path's first block, its own first value."""
        values = np.concatenate((flat[:1], flat[self.size - 1 : -1 : self.size]))
        values[self.starts // self.size] = flat[self.starts]
        return values

    def window_sums(self, heads: Floats, tails: Floats) -> Floats:
        """Sums over all windows: the tail of one block plus the head of the next."""
        sums = np.cumsum(heads, axis=1)
        suffixes = np.cumsum(tails[:, ::-1], axis=1)[:, ::-1]
        suffixes[(self.starts // self.size)[1:] - 1] = 0.0  # windows do not reach back into the path before
        sums[1:, :-1] += suffixes[:, 1:]
        at_ends: Floats = sums.reshape(-1)[self.ends]
        return at_ends


def _mean_in_order(values: Floats) -> float:
    """The mean, summed from first to last as a growing path is; `np.sum` would sum in pairs."""
    return float(np.cumsum(values)[-1]) / len(values)


# One path while it grows: O(1) per token, the same numbers as `scan` to the last bit.
#
# The current block's sums run forward. When a block of L tokens is full, its suffix sums are formed once, so that any
# later window is the rest of the last block plus the head of this one (amortised constant time, no drift).


class Monitor:
    """Group peak, group conf and instability of the latest window of one growing path."""

    __slots__ = (
        "_conf", "_conf_shift", "_d", "_dd", "_dv", "_last", "_lowest", "_p", "_peak", "_peak_shift", "_previous_conf",
        "_suffix_d", "_suffix_dd", "_suffix_dv", "_suffix_p", "_suffix_vv", "_total_conf", "_total_peak",
        "_vv", "conf", "tokens", "window",
    )  # fmt: skip

    def __init__(self, window: int) -> None:
        self.window = window
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
        """Structural instability R of the latest full window."""
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
        """Form the suffix sums of the block, which is full, and begin the next one, both shifted by its last token."""
        before = self._previous_conf[-1] if self._previous_conf else self._conf[0]
        self._conf_shift, self._peak_shift = self._conf[-1], self._peak[-1]
        d, v = np.array(self._conf) - self._conf_shift, np.diff(self._conf, prepend=before)
        terms = np.zeros((5, len(d) + 1))  # at the end, nothing is left of the block
        terms[:, :-1] = d, d * d, d * v, v * v, np.array(self._peak) - self._peak_shift
        sums = np.cumsum(terms[:, ::-1], axis=1)[:, ::-1].tolist()
        self._suffix_d, self._suffix_dd, self._suffix_dv, self._suffix_vv, self._suffix_p = sums
        self._d = self._dd = self._dv = self._vv = self._p = 0.0
        self._previous_conf, self._conf, self._peak = self._conf, [], []
