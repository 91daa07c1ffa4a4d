"""What the monitor inside vLLM reports of a path: how far it is, and at its end a record that becomes a summary."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from math import isfinite, nan
from typing import Any, Final, NamedTuple

import numpy as np

from sureenough.core.confidence import TIER_DROP, TIER_NONE, TIER_RISK, Floats, scan
from sureenough.core.events import Summary
from sureenough.core.pruning import Tier

TIERS: Final = {TIER_NONE: None, TIER_DROP: Tier.DROP, TIER_RISK: Tier.RISK}
MEANS: Final = ("mean_peak", "mean_conf")
UNKNOWN_PATH: Final = "no path of that name was watched"


class PathRecord(NamedTuple):
    """A path as the monitor saw it, after so many tokens."""

    tokens: int
    lowest: float
    tail: float
    tier: int
    signals: Floats | None  # peak and conf of every token, if the request set `trace`
    mean_peak: float = nan  # over all tokens
    mean_conf: float = nan

    def to_json(self) -> dict[str, Any]:
        """Signals are base64 of little-endian doubles."""
        record: dict[str, Any] = {"tokens": self.tokens, "lowest": self.lowest, "tail": self.tail, "tier": self.tier}
        record |= {name: getattr(self, name) for name in MEANS if isfinite(getattr(self, name))}
        if self.signals is not None:
            record["signals"] = base64.b64encode(self.signals.astype("<f8").tobytes()).decode()
        return record


class Progress(NamedTuple):
    """How far a path is."""

    tokens: int
    tail: float | None  # confidence of its last window, if it is known


class MissingRecord(NamedTuple):
    """Why a path has no record."""

    reason: str

    def to_json(self) -> dict[str, Any]:
        """The field `lost` tells it apart from a record."""
        return {"lost": self.reason}


def parse_summary(record: Mapping[str, Any], window: int) -> Summary:
    """A record's JSON as the core's summary of a path; ValueError if it is malformed."""
    try:
        tokens, tier = record["tokens"], TIERS[record["tier"]]
        lowest, tail = float(record["lowest"]), float(record["tail"])
        # Earlier versions do not send all of them.
        mean_peak, mean_conf = (float(record.get(name, nan)) for name in MEANS)
    except (KeyError, TypeError, OverflowError) as error:
        raise ValueError(f"malformed record ({type(error).__name__})") from None
    if type(tokens) is not int or tokens < 0:
        raise ValueError("malformed record (tokens)")
    windows = signals = None
    if "signals" in record:
        if not isinstance(record["signals"], str):
            raise ValueError("malformed record (signals)")
        signals = np.frombuffer(base64.b64decode(record["signals"]), dtype="<f8").astype(np.float64).reshape(-1, 2)
        if len(signals) != tokens or not np.isfinite(signals).all():
            raise ValueError("malformed record (signals)")
        windows = scan(np.ascontiguousarray(signals[:, 0]), np.ascontiguousarray(signals[:, 1]), window)
    return Summary(tokens, lowest, tail, tier, windows, mean_peak, mean_conf, signals)
