"""All windows of finished paths at once: group peak, group conf and instability, in O(n).

A window is the tail of one block of L tokens plus the head of the next. Tails and heads are running sums
inside their block, shifted by the confidence just before it, so no large numbers are subtracted from each
other; `monitor.Monitor` does the same one token at a time and arrives at the same bits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from sureenough.core.confidence.instability import Floats, instability_from_arrays, instability_of_window


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
    _riskiest: dict[float, float] = field(default_factory=dict, repr=False)

    @property
    def watched(self) -> bool:
        """Whether the path reached a full window, from which on gates may close."""
        return self.tokens >= self.window

    def risk(self, eta: float) -> Floats:
        """Structural instability R of every window."""
        return self.noise + eta * self.fall

    def riskiest(self, eta: float) -> float:
        """The largest R; worked out once."""
        if eta not in self._riskiest:
            self._riskiest[eta] = float(self.risk(eta).max())
        return self._riskiest[eta]


def scan(peak: Floats, conf: Floats, window: int) -> Windows:
    """Every window of one recorded path; `peak` and `conf` are float64 arrays of equal length."""
    return scan_all([peak], [conf], window)[0]


def scan_all(peaks: Sequence[Floats], confs: Sequence[Floats], window: int) -> list[Windows]:
    """Every window of many paths, in a few array operations over all of them."""
    lengths = [len(conf) for conf in confs]
    # A row longer than every path would only be padding.
    layout = _Layout(lengths, min(window, max(lengths, default=0)) or 1, window)
    if not layout.ends.size:
        return list(layout.cut(*[np.empty(0)] * 4))
    conf, peak = layout.pad(confs), layout.pad(peaks)
    shift, lift = layout.before_rows(conf), layout.before_rows(peak)
    speed = np.diff(conf, prepend=conf[0])
    speed[layout.starts] = 0.0  # a path's first token has velocity 0

    rows, speeds = conf.reshape(-1, layout.row), speed.reshape(-1, layout.row)
    heads, tails = rows - shift[:, None], rows[:-1] - shift[1:, None]
    d = layout.slide(heads, tails)
    dd = layout.slide(heads * heads, tails * tails)
    dv = layout.slide(heads * speeds, tails * speeds[:-1])
    vv = layout.slide(speeds * speeds, speeds[:-1] * speeds[:-1])
    lifted = peak.reshape(-1, layout.row)
    p = layout.slide(lifted - lift[:, None], lifted[:-1] - lift[1:, None])

    before = conf[layout.before]
    noise, fall, weak = instability_from_arrays(layout.sizes, d, dd, dv, vv, conf[layout.ends] - before)
    for i in np.flatnonzero(weak):
        end = layout.ends[i] + 1
        noise[i], fall[i] = instability_of_window(conf[end - int(layout.sizes[i]) : end], float(before[i]))
    # A window is shifted by what stood before the row in which it ends.
    owner = layout.ends // layout.row
    mean_peak = (p + layout.sizes * lift[owner]) / layout.sizes
    mean_conf = (d + layout.sizes * shift[owner]) / layout.sizes
    return list(layout.cut(mean_peak, mean_conf, noise, fall))


class _Layout:
    """Paths laid into rows of tokens, each path from the start of a row; where their windows end."""

    def __init__(self, lengths: list[int], row: int, window: int) -> None:
        self.lengths, self.row, self.window = lengths, row, window
        rows = [-(-n // row) for n in lengths]
        first = np.cumsum([0, *rows])  # each path's first row
        self.rows = int(first[-1])
        places = [(int(at) * row, n) for at, n in zip(first[:-1], lengths, strict=True)]
        self.spans = [slice(start, start + n) for start, n in places]
        full = [(start, n) for start, n in places if n]
        self.starts: NDArray[np.intp] = np.array([start for start, _ in full], dtype=np.intp)
        # Windows end at every token from the L-th on; a shorter path has one, that ends with it.
        ends = [np.arange(start + min(n, row) - 1, start + n) for start, n in full]
        self.ends: NDArray[np.intp] = np.concatenate(ends) if ends else np.empty(0, np.intp)
        sizes = [np.full(len(end), float(min(n, row))) for end, (_, n) in zip(ends, full, strict=True)]
        self.sizes: Floats = np.concatenate(sizes) if sizes else np.empty(0)
        begins = self.ends + 1 - self.sizes.astype(np.intp)
        self.before: NDArray[np.intp] = np.maximum(begins - 1, np.repeat(self.starts, [len(end) for end in ends]))
        self.counts = [max(0, n - row + 1) or min(n, 1) for n in lengths]

    def pad(self, signals: Sequence[Floats]) -> Floats:
        """All signals in one array, zeros up to each row's end."""
        flat = np.zeros(self.rows * self.row)
        for span, signal in zip(self.spans, signals, strict=True):
            flat[span] = signal
        return flat

    def before_rows(self, flat: Floats) -> Floats:
        """The value just before each row; a path's own first value for its first row."""
        values = np.concatenate((flat[:1], flat[self.row - 1 : -1 : self.row]))
        values[self.starts // self.row] = flat[self.starts]
        return values

    def slide(self, heads: Floats, tails: Floats) -> Floats:
        """Sums over all windows: the rest of one row plus the head of the next."""
        sums = np.cumsum(heads, axis=1)
        # A path's first row has nothing before it: its windows are heads alone.
        rests = np.cumsum(tails[:, ::-1], axis=1)[:, ::-1]
        rests[(self.starts // self.row)[1:] - 1] = 0.0
        sums[1:, :-1] += rests[:, 1:]
        picked: Floats = sums.reshape(-1)[self.ends]
        return picked

    def cut(self, peak: Floats, conf: Floats, noise: Floats, fall: Floats) -> Iterator[Windows]:
        """Each path's share."""
        start = 0
        for tokens, count in zip(self.lengths, self.counts, strict=True):
            share = slice(start, start + count)
            start += count
            mine = conf[share]
            lowest, tail = (float(mine.min()), float(mine[-1])) if count else (0.0, 0.0)
            yield Windows(tokens, self.window, peak[share], mine, noise[share], fall[share], lowest, tail)
