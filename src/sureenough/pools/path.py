"""Recorded paths in memory: an answer, and two signals per token as float64 whatever the file held.

Paths without signals have their number of tokens, and perhaps what an engine knew of them that watched them at one
window: enough for strategies that do not prune.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate, groupby
from typing import Final, Literal

import numpy as np
from numpy.typing import ArrayLike

from sureenough.core.confidence import Floats, Windows, scan, scan_all
from sureenough.core.events import Summary
from sureenough.core.options import check_count
from sureenough.errors import UsageError

Signals = Literal["tokens", "summaries", "none"]
"""What is known of confidence: two numbers per token, three per path at one window, or nothing."""


@dataclass(frozen=True, slots=True, eq=False)
class RecordedPath:
    """A path that was sampled once and can be replayed under any strategy that its signals allow."""

    answer: str | None
    peak: Floats | Sequence[float] = None  # type: ignore[assignment]  # None, like conf, without signals: then empty
    conf: Floats | Sequence[float] = None  # type: ignore[assignment]
    number: int | None = None  # its number when it was recorded
    finish: str = "stop"  # "stop", or "length" if it was cut
    text: str | None = None
    seed: int | None = None
    tokens: int = None  # type: ignore[assignment]  # needed without signals; else one per value of conf
    known: tuple[int, Summary] | None = None  # without signals: a window, and what an engine that watched it knows
    signals: Signals = None  # type: ignore[assignment]  # by default what is given
    _scans: dict[int, Windows] = field(default_factory=dict, init=False, repr=False)
    _summaries: dict[int, Summary] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        if self.answer is not None and not isinstance(self.answer, str):
            raise UsageError(f"the answer of a recorded path is {self.answer!r}; it must be a string, or None")
        if self.answer is not None and not self.answer.strip():
            object.__setattr__(self, "answer", None)  # with an empty answer, the path abstains
        given: tuple[object, ...] = self.signals, self.peak, self.conf, self.tokens
        bare = (given[1] is None and given[2] is None) if given[0] is None else self.signals != "tokens"
        for name in ("peak", "conf"):
            object.__setattr__(self, name, np.empty(0) if bare else _signal(name, getattr(self, name)))
        kind = "tokens" if not bare else "none" if self.known is None else "summaries"
        object.__setattr__(self, "signals", kind)
        if len(self.peak) != len(self.conf):
            raise UsageError(
                f"a recorded path has {len(self.peak)} values of peak and {len(self.conf)} of conf; "
                "both need one value per token"
            )
        if not bare:
            object.__setattr__(self, "tokens", len(self.conf))
        elif given[3] is None:
            raise UsageError("a recorded path needs peak and conf, or else its number of tokens")
        check_count("tokens of a recorded path", self.tokens, 0)

    @property
    def token_texts(self) -> str | None:
        """The text of every token, if each is one character, as the built-in model's are: pools keep whole texts."""
        return self.text if self.text is not None and len(self.text) == self.tokens else None

    def windows(self, window: int) -> Windows:
        """All its windows of that size; computed once."""
        windows = self._scans.get(window)
        if windows is None:
            if self.signals != "tokens":
                raise UsageError("this needs the confidence of every token, which these paths were recorded without")
            windows = self._scans[window] = scan(np.asarray(self.peak), np.asarray(self.conf), window)
        return windows

    def summary(self, window: int) -> Summary:
        """What an engine that watched it to its end would know of it; made once."""
        if self.signals == "none":
            return Summary(self.tokens)
        if self.known is not None:
            if window != self.known[0]:
                raise UsageError(
                    f"window is {window}; these paths have the values of windows of {self.known[0]} tokens only",
                    argument="window",
                )
            return self.known[1]
        summary = self._summaries.get(window)
        if summary is None:
            windows = self.windows(window)
            summary = self._summaries[window] = Summary.of(windows, windows)
        return summary

    def summarised(self, window: int) -> RecordedPath:
        """What a strategy that does not prune reads of it."""
        if self.signals != "tokens":
            return self
        known = window, self.summary(window)._replace(windows=None)
        return RecordedPath(self.answer, number=self.number, finish=self.finish, tokens=self.tokens, known=known)


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """All recorded paths of one question."""

    id: str
    gold: str | None
    level: int | None
    paths: list[RecordedPath]
    text: str | None = None  # the question as it was written
    kind: str | None = None  # of answer, if not the pool's
    part: int = 0  # which file of the pool holds it


AT_ONCE: Final = 1 << 18  # tokens scanned in one batch: enough for speed, little enough for memory


def scan_together(paths: Sequence[RecordedPath], window: int) -> None:
    """Compute the windows of many short paths at once; long ones gain nothing and are left for later."""
    short = [
        path for path in paths
        if path.signals == "tokens" and window not in path._scans and path.tokens < AT_ONCE // 16
    ]  # fmt: skip
    ends = accumulate(path.tokens for path in short)
    for _, batch in groupby(zip(short, ends, strict=True), key=lambda pair: pair[1] // AT_ONCE):
        together = [path for path, _ in batch]
        peaks, confs = ([np.asarray(getattr(path, name)) for path in together] for name in ("peak", "conf"))
        for path, windows in zip(together, scan_all(peaks, confs, window), strict=True):
            path._scans[window] = windows


def _signal(name: str, values: ArrayLike) -> Floats:
    try:
        signal = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        signal = np.empty((0, 0))
    if signal.ndim != 1:
        raise UsageError(f"{name} of a recorded path must be a flat list of numbers, one per token")
    if not np.isfinite(signal).all():
        raise UsageError(
            f"{name} of a recorded path holds NaN or infinite values; "
            "floor log-probabilities at -100 before they are averaged"
        )
    return signal
