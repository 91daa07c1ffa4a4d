"""One recorded path: its answer and two signals a token. Signals are float64 in memory, whatever the file held."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from sureenough.core.trend import Floats
from sureenough.core.windows import Windows, scan
from sureenough.errors import UsageError


@dataclass(frozen=True, slots=True, eq=False)
class RecordedPath:
    """A path that was sampled once and can be replayed under any strategy."""

    answer: str | None
    peak: Floats | Sequence[float]
    conf: Floats | Sequence[float]
    number: int | None = None  # its number when it was recorded
    finish: str = "stop"  # "stop", or "length" where it was cut
    text: str | None = None
    seed: int | None = None
    _scans: dict[int, Windows] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        for name in ("peak", "conf"):
            object.__setattr__(self, name, _signal(name, getattr(self, name)))
        if len(self.peak) != len(self.conf):
            raise UsageError(
                f"a recorded path has {len(self.peak)} values of peak and {len(self.conf)} of conf; "
                "both need one value a token"
            )

    @property
    def tokens(self) -> int:
        """Its length."""
        return len(self.conf)

    def windows(self, window: int) -> Windows:
        """All its windows of that size; worked out once."""
        found = self._scans.get(window)
        if found is None:
            found = self._scans[window] = scan(np.asarray(self.peak), np.asarray(self.conf), window)
        return found


def _signal(name: str, values: ArrayLike) -> Floats:
    try:
        signal = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise UsageError(f"{name} of a recorded path must be a list of numbers, one a token") from None
    if signal.ndim != 1:
        raise UsageError(f"{name} of a recorded path must be a flat list of numbers, one a token")
    if not np.isfinite(signal).all():
        raise UsageError(
            f"{name} of a recorded path holds NaN or infinite values; "
            "floor log-probabilities at -100 before they are averaged"
        )
    return signal
