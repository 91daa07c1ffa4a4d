"""What the server has done, in Prometheus' text form. Labels are of small, known sets; no request's text is there."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from typing import Final

from sureenough.core.outcome import BUCKETS, Outcome

BOUNDS: Final = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 25.0, 60.0, 120.0, 300.0, 600.0)
KIND: Final = "text/plain; version=0.0.4; charset=utf-8"


class ServerMetrics:
    """Counts since the start."""

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, int]] = Counter()
        self.reasons: Counter[str] = Counter()
        self.tokens: Counter[str] = Counter()
        self.paths: Counter[str] = Counter()
        self.turned_away = 0
        self.left = 0  # clients that went away before their reply
        self._slots = [0] * (len(BOUNDS) + 1)
        self._seconds = 0.0

    def answered(self, route: str, status: int, seconds: float) -> None:
        """A reply went out."""
        self.requests[route, status] += 1
        self._slots[bisect_left(BOUNDS, seconds)] += 1
        self._seconds += seconds

    def ended(self, out: Outcome) -> None:
        """A run is over."""
        self.reasons[out.reason] += 1
        for bucket in BUCKETS:
            self.tokens[bucket] += getattr(out.tokens, bucket)
        self.tokens["prompt"] += out.tokens.prompt
        self.paths["started"] += out.started
        self.paths["pruned"] += out.pruned
        self.paths["failed"] += out.failed

    def text(self, busy: int, running: int, tasks: int) -> str:
        """All of it."""
        lines = [
            *_metric("requests_total", "counter", "Replies by route and status.", {
                f'route="{route}",status="{status}"': n for (route, status), n in sorted(self.requests.items())}),
            *_metric("runs_total", "counter", "Runs by why they ended.", _by("reason", self.reasons)),
            *_metric("tokens_total", "counter", "Tokens by what became of them.", _by("bucket", self.tokens)),
            *_metric("paths_total", "counter", "Paths.", _by("what", self.paths)),
            *_metric("turned_away_total", "counter", "Requests refused because of too many.", {"": self.turned_away}),
            *_metric("clients_left_total", "counter", "Clients that left before their reply.", {"": self.left}),
            *_metric("requests_in_flight", "gauge", "Requests being answered.", {"": busy}),
            *_metric("runs_in_flight", "gauge", "Runs under way.", {"": running}),
            *_metric("tasks", "gauge", "Tasks of the event loop.", {"": tasks}),
            *self._histogram(),
        ]  # fmt: skip
        return "\n".join(lines) + "\n"

    def _histogram(self) -> list[str]:
        name = "sureenough_request_seconds"
        lines = [f"# HELP {name} Seconds from request to the end of the reply.", f"# TYPE {name} histogram"]
        total = 0
        for bound, n in zip((*map(str, BOUNDS), "+Inf"), self._slots, strict=True):
            total += n
            lines.append(f'{name}_bucket{{le="{bound}"}} {total}')
        return [*lines, f"{name}_sum {self._seconds:.6f}", f"{name}_count {total}"]


def _by(label: str, counts: Counter[str]) -> dict[str, int]:
    return {f'{label}="{name}"': n for name, n in sorted(counts.items())}


def _metric(name: str, kind: str, says: str, values: dict[str, int]) -> list[str]:
    full = f"sureenough_{name}"
    rows = [f"{full}{f'{{{labels}}}' if labels else ''} {value}" for labels, value in values.items()]
    return [f"# HELP {full} {says}", f"# TYPE {full} {kind}", *rows]
