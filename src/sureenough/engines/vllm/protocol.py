"""What a request may ask of the monitor inside vLLM, in the flat `vllm_xargs` of its protocol; the rest is refused.

Both sides of the wire use this file: the client writes arguments into a header, the server reads and checks them.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from math import inf, isfinite
from typing import Any, Final

from sureenough.core.pruning import Gate
from sureenough.errors import UsageError

PREFIX: Final = "sure_"
NUMBERS: Final = {"sure_trust": "trust", "sure_drop": "drop", "sure_risk": "risk", "sure_eta": "eta"}
KNOWN: Final = ("sure_key", "sure_window", "sure_trace", *NUMBERS)
KEY: Final = re.compile(r"[A-Za-z0-9_-]{8,64}")
LONGEST: Final = "SUREENOUGH_VLLM_WINDOW"
"""Environment: tokens of the longest window that the server has room for."""
SOCKET: Final = "SUREENOUGH_VLLM_SOCKET"
"""Environment: where the monitor answers questions about the paths that it watched."""
WATCH: Final = "sureenough-watch"
"""Header of a request: watch this path so, if you can, and leave its log-probabilities out."""
WATCHED: Final = "sureenough-watched"
"""Header of the reply to it: the path is watched."""
PROTOCOL: Final = 1
K: Final = 20
CHANGING: Final = {
    "structured_outputs": "a grammar",
    "logit_bias": "logit_bias",
    "allowed_token_ids": "allowed_token_ids",
    "bad_words": "bad_words",
}
"""What changes logits before the monitor sees them."""
OPEN: Final = Gate()
"""Never closes."""


@dataclass(frozen=True, slots=True)
class WatchRequest:
    """One request, as the monitor is to watch it."""

    key: str  # under which its record is asked for
    window: int
    gate: Gate = OPEN
    trace: bool = False  # keep every token's signals, for a warm-up path's windows

    def written(self) -> dict[str, str | float | int]:
        """As `vllm_xargs`; thresholds that never close are left out, since JSON has no infinity."""
        told: dict[str, str | float | int] = {"sure_key": self.key, "sure_window": self.window}
        if self.trace:
            told["sure_trace"] = 1
        for name, field in NUMBERS.items():
            value = getattr(self.gate, field)
            if isfinite(value):
                told[name] = value
        return told

    def header(self) -> dict[str, str]:
        """As the header of a request, which servers that do not know it ignore."""
        return {WATCH: json.dumps({"protocol": PROTOCOL, "arguments": self.written()})}


def longest_window() -> int:
    """The longest window of this server."""
    said = os.environ.get(LONGEST, "2048")
    if not said.isdigit() or int(said) < 1:
        raise UsageError(f"{LONGEST} is {said!r}; it must be a whole number of at least 1")
    return int(said)


def read(arguments: Mapping[str, Any] | None) -> WatchRequest | None:
    """What these arguments ask for; None where they do not speak of us."""
    ours = {name: value for name, value in (arguments or {}).items() if name.startswith(PREFIX)}
    if not ours:
        return None
    unknown = [name for name in ours if name not in KNOWN]
    if unknown:
        raise UsageError(f"unknown argument {unknown[0]!r} in vllm_xargs; known: {', '.join(KNOWN)}")
    key = ours.get("sure_key")
    if not isinstance(key, str) or KEY.fullmatch(key) is None:
        raise UsageError("sure_key must be a text of 8 to 64 letters, digits, - or _: the record is asked for by it")
    numbers = {field: _number(name, ours[name]) for name, field in NUMBERS.items() if name in ours}
    if numbers.get("eta", 0.0) < 0.0:
        raise UsageError(f"sure_eta is {numbers['eta']}; it must be at least 0")
    trace = ours.get("sure_trace", 0)
    if trace not in (0, 1):
        raise UsageError(f"sure_trace is {trace!r}; it must be 0 or 1")
    return WatchRequest(key, _window(ours.get("sure_window")), Gate(**numbers), bool(trace))


def _window(said: object) -> int:
    longest = longest_window()
    if not isinstance(said, bool) and isinstance(said, int | float) and 1 <= said <= longest and said == int(said):
        return int(said)
    raise UsageError(f"sure_window is {said!r}; it must be a whole number from 1 to {longest} (the server's {LONGEST})")


def _number(name: str, said: object) -> float:
    if isinstance(said, bool) or not isinstance(said, int | float) or not isfinite(said):
        raise UsageError(f"{name} is {said!r}; it must be a finite number, or left out to mean never")
    return float(said)


def watchable(request: Mapping[str, Any], arguments: Mapping[str, Any]) -> bool:
    """Whether a request, as it is sent, leaves the model's logits and its end token to the monitor."""
    form = request.get("response_format") or {}
    if form and (not isinstance(form, Mapping) or form.get("type") != "text"):
        return False
    if any(value for name, value in request.items() if name in CHANGING or name.startswith("guided_")):
        return False
    if request.get("n") not in (None, 1):
        return False
    may_end = any(name in arguments for name in ("sure_drop", "sure_risk"))
    return not (may_end and (request.get("ignore_eos") or request.get("min_tokens")))


def prunes(gate: Gate) -> bool:
    """Whether a path may be ended by this gate."""
    return gate.drop > -inf or gate.risk < inf
