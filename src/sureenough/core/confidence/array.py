"""All windows of finished paths at once: group peak, group conf and instability, in O(n).

A window is the tail of one block of L tokens plus the head of the next. Heads are running sums inside their block,
tails are suffix sums, both shifted by the confidence just before the later block, so that large numbers are never
subtracted from each other. `streaming.Monitor` does the same one token at a time, to the same bits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from sureenough.core.confidence.instability import Floats, instability_from_arrays, instability_of_window


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
    signal: Floats  # conf of every token
    _riskiest: dict[float, float] = field(default_factory=dict, repr=False)
    _trends: dict[int, Windows] = field(default_factory=dict, repr=False)

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

    def trend(self, size: int) -> Windows:
        """The path's windows of the size at which its trend is measured, computed once; 0 means these."""
        if size in (0, self.window):
            return self
        if size not in self._trends:
            self._trends[size] = scan(self.signal, self.signal, size)
        return self._trends[size]


def scan(peak: Floats, conf: Floats, window: int) -> Windows:
    """Every window of one recorded path; `peak` and `conf` are float64 arrays of equal length."""
    return scan_all([peak], [conf], window)[0]


def scan_all(peaks: Sequence[Floats], confs: Sequence[Floats], window: int) -> list[Windows]:
    """Every window of many paths, in a few array operations over all of them."""
    lengths = [len(conf) for conf in confs]
    # A block longer than every path would only be padding.
    layout = _Layout(lengths, min(window, max(lengths, default=0)) or 1, window)
    if not layout.ends.size:
        return list(layout.split(confs, *[np.empty(0)] * 6))
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
    return list(layout.split(confs, peak, conf, mean_peak, mean_conf, isotropy, penalty))


class _Layout:
    """Paths laid out in blocks of `size` tokens, each path from the start of a block, and where their windows end."""

    def __init__(self, lengths: list[int], size: int, window: int) -> None:
        self.lengths, self.size, self.window = lengths, size, window
        first_blocks = np.cumsum([0, *(-(-n // size) for n in lengths)])
        self.blocks = int(first_blocks[-1])
        starts = [int(block) * size for block in first_blocks[:-1]]
        self.spans = [slice(start, start + n) for start, n in zip(starts, lengths, strict=True)]
        nonempty = [(start, n) for start, n in zip(starts, lengths, strict=True) if n]
        self.starts: NDArray[np.intp] = np.array([start for start, _ in nonempty], dtype=np.intp)
        # Windows end at every token from the L-th on; a shorter path has one, which ends with the path.
        ends = [np.arange(start + min(n, size) - 1, start + n) for start, n in nonempty]
        self.ends: NDArray[np.intp] = np.concatenate(ends) if ends else np.empty(0, np.intp)
        sizes = [np.full(len(end), float(min(n, size))) for end, (_, n) in zip(ends, nonempty, strict=True)]
        self.window_sizes: Floats = np.concatenate(sizes) if sizes else np.empty(0)
        begins = self.ends + 1 - self.window_sizes.astype(np.intp)
        self.before: NDArray[np.intp] = np.maximum(begins - 1, np.repeat(self.starts, [len(end) for end in ends]))
        self.window_counts = [max(0, n - size + 1) or min(n, 1) for n in lengths]

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

    def split(
        self, signals: Sequence[Floats], peaks: Floats, confs: Floats, peak: Floats, conf: Floats, isotropy: Floats,
        penalty: Floats,
    ) -> Iterator[Windows]:  # fmt: skip
        """The windows of each path, from its conf, the signals of all tokens and the values of all windows."""
        start = 0
        for signal, tokens, count, path in zip(signals, self.lengths, self.window_counts, self.spans, strict=True):
            span = slice(start, start + count)
            start += count
            of_path = conf[span]
            lowest, tail = (float(of_path.min()), float(of_path[-1])) if count else (0.0, 0.0)
            yield Windows(
                tokens, self.window, peak[span], of_path, isotropy[span], penalty[span], lowest, tail,
                _mean_in_order(peaks[path]), _mean_in_order(confs[path]), signal,
            )  # fmt: skip


def _mean_in_order(values: Floats) -> float:
    """The mean, summed from first to last as a growing path is; `np.sum` would sum in pairs."""
    return float(np.cumsum(values)[-1]) / len(values) if len(values) else 0.0
