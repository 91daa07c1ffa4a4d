"""What a client and the monitor inside vLLM share: how a path is watched, and what is reported of it.

Arguments travel in a header; the server writes them into the flat `vllm_xargs` of vLLM's own protocol and checks them.
At a path's end, the server sends a record, which becomes a summary. This file needs only numpy.
"""

from __future__ import annotations

import base64
import json
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from math import inf, isfinite
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from sureenough.core.confidence import LOGPROB_FLOOR, Floats, scan
from sureenough.core.events import Summary
from sureenough.core.pruning import Gate, Tier
from sureenough.errors import UsageError

if TYPE_CHECKING:
    from sureenough.engines.base import WatchOptions

PROTOCOL_VERSION: Final = 2
K: Final = 20
"""Candidates over which a token's confidence is a mean."""
WATCH_HEADER: Final = "sureenough-watch"
"""Header of a request: watch this path with these arguments if you can, and leave out its log-probabilities."""
WATCHED_HEADER: Final = "sureenough-watched"  # header of the reply: the path is watched

LONGEST_WINDOW: Final = 2048
"""Tokens of the longest window that the monitor has memory for."""

ARGUMENT_PREFIX: Final = "sure_"
THRESHOLDS: Final = {"sure_trust": "trust", "sure_drop": "drop", "sure_risk": "risk", "sure_eta": "eta"}
FINITE: Final = sys.float_info.max
_THRESHOLD: Final = (-FINITE, FINITE, "a finite number, or left out to mean never")
NUMBERS: Final = {
    "sure_window": (1, LONGEST_WINDOW, f"a whole number from 1 to {LONGEST_WINDOW}"),
    "sure_trace": (0, 1, "0 or 1"),
    "sure_eta": (0, FINITE, "a finite number of at least 0"),
    **dict.fromkeys(("sure_trust", "sure_drop", "sure_risk"), _THRESHOLD),
}
"""The least and the largest value of each argument that is a number, and what it must be."""
ARGUMENTS: Final = ("sure_key", "sure_window", "sure_trace", *THRESHOLDS)
KEY_PATTERN: Final = re.compile(r"[A-Za-z0-9_-]{8,64}")
LOGIT_CHANGES: Final = {
    "structured_outputs": "a grammar",
    "logit_bias": "logit_bias",
    "allowed_token_ids": "allowed_token_ids",
    "bad_words": "bad_words",
}
"""Sampling parameters that change logits before the monitor sees them."""
NEVER_CLOSES: Final = Gate()
PROGRESS_SECONDS: Final = 0.5
"""Time between two requests for the progress of all paths of a client."""
ALIVE_SECONDS: Final = 15.0
"""Time between two events of a watched path; nothing else is sent before its end."""
MAX_REPORTS_PER_SECOND: Final = 512
MAX_KEYS: Final = 4096
"""Paths in one request for their progress."""


# -- arguments of a request


@dataclass(frozen=True, slots=True)
class WatchRequest:
    key: str  # names the path's record; whoever knows it may read the record
    window: int
    gate: Gate = NEVER_CLOSES
    trace: bool = False  # keep every token's signals, for a warm-up path or one whose window is not known yet
    record: bool = True  # False: only the path's tokens are counted, and its reply needs no record

    @classmethod
    def of(cls, key: str, watch: WatchOptions, *, signals: bool = True) -> WatchRequest:
        """The request for a path; one whose window is not known is traced, and any window will do.

        Without `signals` the path is watched only so that nothing has to be sent before its end.
        """
        if not signals:
            return cls(key, 1, record=False)
        return cls(key, watch.window or 1, watch.gate or NEVER_CLOSES, trace=watch.gate is None)

    def to_arguments(self) -> dict[str, str | float | int]:
        """As `vllm_xargs`; thresholds that never close are left out, since JSON has no infinity."""
        arguments: dict[str, str | float | int] = {"sure_key": self.key, "sure_window": self.window}
        if self.trace:
            arguments["sure_trace"] = 1
        values = {name: getattr(self.gate, field) for name, field in THRESHOLDS.items()}
        return arguments | {name: value for name, value in values.items() if isfinite(value)}

    def to_header(self) -> dict[str, str]:
        """As a request's header, which servers without a monitor ignore."""
        message = {"protocol": PROTOCOL_VERSION, "arguments": self.to_arguments()}
        return {WATCH_HEADER: json.dumps(message | {"record": self.record})}


def parse_watch_arguments(arguments: Mapping[str, Any] | None) -> WatchRequest | None:
    """The watch request in `vllm_xargs`; None if none of the arguments is ours."""
    ours = {name: value for name, value in (arguments or {}).items() if name.startswith(ARGUMENT_PREFIX)}
    if not ours:
        return None
    unknown = [name for name in ours if name not in ARGUMENTS]
    if unknown:
        raise UsageError(f"unknown argument {unknown[0]!r} in vllm_xargs; known: {', '.join(ARGUMENTS)}")
    key = ours.get("sure_key")
    if not isinstance(key, str) or KEY_PATTERN.fullmatch(key) is None:
        raise UsageError("sure_key must be a string of 8 to 64 letters, digits, - or _; it names the path's record")
    thresholds: dict[str, Any] = {field: _number(ours, name) for name, field in THRESHOLDS.items() if name in ours}
    trace = bool(_number(ours, "sure_trace")) if "sure_trace" in ours else False
    return WatchRequest(key, int(_number(ours, "sure_window")), Gate(**thresholds), trace)


def _number(arguments: Mapping[str, Any], name: str) -> float:
    value: Any = arguments.get(name)
    least, most, kind = NUMBERS[name]
    if type(value) in (int, float) and least <= value <= most and (most == FINITE or value == int(value)):
        return float(value)
    raise UsageError(f"{name} must be {kind}")


def is_watchable(body: Mapping[str, Any], arguments: Mapping[str, Any]) -> bool:
    """Whether a request's body leaves the model's logits and its end token to the monitor."""
    response_format = body.get("response_format") or {}
    if response_format and (not isinstance(response_format, Mapping) or response_format.get("type") != "text"):
        return False
    if any(value for name, value in body.items() if name in LOGIT_CHANGES or name.startswith("guided_")):
        return False
    if body.get("n") not in (None, 1):
        return False
    if body.get("tool_choice") not in (None, "none", "auto"):  # a call that must come is made by a grammar
        return False
    may_prune = any(name in arguments for name in ("sure_drop", "sure_risk"))
    return not (may_prune and (body.get("ignore_eos") or body.get("min_tokens")))


def is_countable(sampling: Mapping[str, Any]) -> bool:
    """Whether a path without signals can be watched: these parameters must not lead to a grammar or the like."""
    return is_watchable(sampling, {}) and not sampling.get("tools")


def can_prune(gate: Gate) -> bool:
    return gate.drop > -inf or gate.risk < inf


# -- what the monitor reports of a path

TIER_NONE, TIER_DROP, TIER_RISK = 0.0, 1.0, 2.0
TIERS: Final = {TIER_NONE: None, TIER_DROP: Tier.DROP, TIER_RISK: Tier.RISK}
MOST_TOKENS: Final = 1 << 24
_ROUNDING: Final = 1e-3
MEASURES: Final = {
    "lowest": _ROUNDING - LOGPROB_FLOOR,
    "tail": _ROUNDING - LOGPROB_FLOOR,
    "mean_peak": 1.0 + _ROUNDING,
    "mean_conf": _ROUNDING - LOGPROB_FLOOR,
}
"""The largest value of each measure; the smallest is 0."""
UNKNOWN_PATH: Final = "no path of that name was watched"


class PathRecord(NamedTuple):
    """A path as the monitor saw it, after so many tokens."""

    tokens: int
    lowest: float
    tail: float
    tier: int
    signals: Floats | None  # peak and conf of every token, if the request set `trace`
    mean_peak: float  # over all tokens
    mean_conf: float

    def to_json(self) -> dict[str, Any]:
        """Signals are base64 of little-endian doubles."""
        record = self._asdict()
        if self.signals is None:
            del record["signals"]
        else:
            record["signals"] = base64.b64encode(self.signals.astype("<f8").tobytes()).decode()
        return record


class Progress(NamedTuple):
    tokens: int
    tail: float | None  # confidence of its last window, if it is known


class MissingRecord(NamedTuple):
    """Why a path has no record."""

    reason: str

    def to_json(self) -> dict[str, Any]:
        """The field `lost` tells it apart from a record."""
        return {"lost": self.reason}


def parse_summary(record: Mapping[str, Any], request: WatchRequest) -> Summary:
    """A record's JSON as the core's summary of a path. Every field of it is checked here.

    Raises:
        ValueError: one is missing, or is not what a monitor reports of such a request; the message names it.
    """
    tokens, tier = possible_count(record.get("tokens")), record.get("tier")
    if tokens is None:
        raise ValueError("malformed record (tokens)")
    if type(tier) is not int or tier not in TIERS or not (tier == TIER_NONE or can_prune(request.gate)):
        raise ValueError("malformed record (tier)")
    lowest, tail, mean_peak, mean_conf = (_measure(record, name) for name in MEASURES)
    windows = signals = None
    if request.trace:
        signals = _signals(record.get("signals"), tokens)
        windows = scan(np.ascontiguousarray(signals[:, 0]), np.ascontiguousarray(signals[:, 1]), request.window)
    return Summary(tokens, lowest, tail, TIERS[tier], windows, mean_peak, mean_conf, signals)


def possible_count(value: object) -> int | None:
    """A server's number of tokens; None if it is not one that a path or a prompt may have."""
    return value if type(value) is int and 0 <= value <= MOST_TOKENS else None


def confidence(value: object) -> float | None:
    """A confidence; None if it is anything else."""
    return value if type(value) is float and 0.0 <= value <= MEASURES["tail"] else None


def _measure(record: Mapping[str, Any], name: str) -> float:
    value = record.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0.0 <= value <= MEASURES[name]:
        raise ValueError(f"malformed record ({name})")
    return float(value)


def _signals(encoded: object, tokens: int) -> Floats:
    try:
        raw = base64.b64decode(encoded if isinstance(encoded, str) else "?", validate=True)
        signals = np.frombuffer(raw, dtype="<f8").astype(np.float64).reshape(tokens, 2)
    except ValueError:
        raise ValueError("malformed record (signals)") from None
    if not ((signals >= 0.0) & (signals <= [MEASURES["mean_peak"], MEASURES["mean_conf"]])).all():  # nor is NaN
        raise ValueError("malformed record (signals)")
    return signals
