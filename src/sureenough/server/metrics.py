"""What the server has done, for Prometheus. Labels are of small, bounded sets; none holds text of a question."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Iterator
from math import ceil
from statistics import fmean
from typing import TYPE_CHECKING, Any, Final

from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics
from prometheus_client.core import Metric

from sureenough.core.events import Fate
from sureenough.core.outcome import BUCKETS, Outcome, Snapshot, Spent, token_bill
from sureenough.core.weights import SIGNALS, BySignals
from sureenough.errors import UsageError
from sureenough.pools.learner import LearnerStates
from sureenough.spec import parse

if TYPE_CHECKING:
    from sureenough.server.consensus import ServerState

BOUNDS: Final = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 25.0, 60.0, 120.0, 300.0, 600.0)
LATEST: Final = 1000
"""Requests whose seconds are kept for their mean and their 95th percentile."""
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


def learned_signals(learned: LearnerStates) -> list[dict[str, Any]]:
    """For each model, window and strategy: questions, and by signal r, beta and the questions behind them.

    Beta is 0 for strategies whose votes do not use what was learned.
    """
    shown = []
    for key, state in learned.known.items():
        betas = state.betas(_most_beta(key.strategy))
        signals = {
            name: {"r": state.correlations[name], "beta": betas[name], "questions": state.counts[number]}
            for number, name in enumerate(SIGNALS)
        }
        shown.append(key._asdict() | {"questions": state.questions, "signals": signals})
    return shown


def _most_beta(spec: str) -> float:
    try:
        weigh = parse(spec).weigh
    except UsageError:  # a plug-in's, or of a file that another version wrote
        return 0.0
    return weigh.beta if isinstance(weigh, BySignals) and weigh.weigh == "learned" else 0.0


def _metric(kind: str, name: str, help: str, samples: Iterable[tuple[dict[str, str], float]]) -> Metric:
    metric = Metric(f"sureenough_{name}", help, kind)
    for labels, value in samples:
        metric.add_sample(metric.name + ("_total" if kind == "counter" else ""), labels, value)
    return metric


class ServerMetrics:
    """The counters of one server, in a registry of its own, and what its state says now."""

    def __init__(self, state: ServerState) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry, self._state = CollectorRegistry(), state
        self._latest: deque[float] = deque(maxlen=LATEST)
        self.requests = self._counter("requests", "Responses by route and status.", "route", "status")
        self.rejected = self._counter("turned_away", "Requests refused because the server was busy.")
        self.disconnects = self._counter("clients_left", "Clients that disconnected before their response was sent.")
        self._runs = self._counter("runs", "Runs by the reason why they ended.", "reason")
        self._tokens = self._counter("tokens", "Tokens by bucket.", "bucket")
        self._prompts = self._counter(
            "prompt_tokens", "Prompt tokens of paths, of searches (reread), and what was cached.", "what"
        )
        self._paths = self._counter("paths", "Paths by what happened to them.", "what")
        self._seconds = Histogram(
            "sureenough_request_seconds", "Seconds from a request to the end of its response.",
            buckets=BOUNDS, registry=self.registry,
        )  # fmt: skip

    def _counter(self, name: str, help: str, *labels: str) -> Counter:
        return Counter(f"sureenough_{name}", help, labels, registry=self.registry)

    def count_response(self, route: str, status: int, seconds: float) -> None:
        self.requests.labels(route, str(status)).inc()
        self._seconds.observe(seconds)
        if route.startswith("/v1/") and status < 400:
            self._latest.append(seconds)

    def latency(self) -> dict[str, float] | None:
        """Mean and 95th percentile of the latest requests' seconds; None before the first."""
        if not self._latest:
            return None
        ranked = sorted(self._latest)
        return {"requests": len(ranked), "mean": fmean(ranked), "p95": ranked[ceil(0.95 * len(ranked)) - 1]}

    def count_run(self, out: Outcome) -> None:
        self._count(out.reason, out.tokens, started=out.started, pruned=out.pruned, failed=out.failed)

    def count_failed_run(self, last: Snapshot) -> None:
        """Count a run that ended with an error: its tokens were generated all the same. Its prompts are not known."""
        fates = [path.fate for path in last.paths]
        pruned, failed = fates.count(Fate.PRUNED), fates.count(Fate.FAILED)
        self._count("error", token_bill(last.paths), started=len(fates), pruned=pruned, failed=failed)

    def _count(self, reason: str, tokens: Spent, **paths: int) -> None:
        self._runs.labels(reason).inc()
        for bucket in (*BUCKETS, "prompt"):
            self._tokens.labels(bucket).inc(max(0, getattr(tokens, bucket)))
        for what in ("prompt", "reread", "cached", "reread_cached"):
            self._prompts.labels(what).inc(max(0, getattr(tokens, what)))
        for what, number in paths.items():
            self._paths.labels(what).inc(number)

    def collect(self) -> Iterator[Metric]:
        """Every metric; with a label that names the replica, if it is one: a request reaches any of them."""
        replica = self._state.settings.replica
        for metric in (*self.registry.collect(), *self._in_flight(), *self._upstreams()):
            if replica:
                metric.samples = [
                    sample._replace(labels=sample.labels | {"replica": replica}) for sample in metric.samples
                ]
            yield metric

    def _in_flight(self) -> Iterator[Metric]:
        yield _metric("gauge", "requests_in_flight", "Requests being served.", [({}, self._state.requests)])
        yield _metric("gauge", "runs_in_flight", "Runs in progress.", [({}, len(self._state.runs))])
        latency = self.latency()
        if latency is not None:
            samples = [({"statistic": name}, latency[name]) for name in ("mean", "p95")]
            yield _metric(
                "gauge", "latency_seconds", f"Mean and 95th percentile of the last {LATEST} requests.", samples
            )
        yield _metric("gauge", "tasks", "Tasks of the event loop.", [({}, len(asyncio.all_tasks()))])

    def _upstreams(self) -> Iterator[Metric]:
        """What each of several upstream servers does; clients do not learn their addresses."""
        servers = [({"server": str(number)}, load) for number, load in enumerate(self._state.backend.loads, 1)]
        if len(servers) < 2:
            return
        counts = (
            ({**server, "what": what}, getattr(load, what))
            for server, load in servers
            for what in ("started", "finished", "failed")
        )
        yield _metric("counter", "upstream_paths", "Paths by server and what happened to them.", counts)
        for kind, name, help in (
            ("counter", "tokens", "Tokens by server."),
            ("gauge", "available", "Whether a server gets paths."),
            ("gauge", "running", "Paths that run on a server."),
        ):
            samples = ((server, float(getattr(load, name))) for server, load in servers)
            yield _metric(kind, f"upstream_{name}", help, samples)
