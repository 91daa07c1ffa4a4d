"""What the server has done, for Prometheus. Labels are of small, bounded sets; none holds text of a question."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from sureenough.core.outcome import BUCKETS, Outcome
from sureenough.core.weights import SIGNALS, BySignals
from sureenough.engines.load_balancer import ServerLoad
from sureenough.errors import UsageError
from sureenough.pools.learner import LearnerStates
from sureenough.spec import parse

BOUNDS: Final = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 25.0, 60.0, 120.0, 300.0, 600.0)
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
        strategy = parse(spec)
    except UsageError:  # a plug-in's, or of a file that another version wrote
        return 0.0
    return strategy.weigh.beta if isinstance(strategy.weigh, BySignals) and strategy.weigh.weigh == "learned" else 0.0


def learned_gauges(learned: LearnerStates) -> Iterator[Metric]:
    """What was learned of each model's confidence: r, beta and the number of questions."""
    labels = ("model", "window", "strategy", "signal")
    helps = {
        "r": "Correlation of a signal with agreement, the prior included.",
        "beta": "Weight of a signal in the vote.",
        "questions": "Questions from which a signal's correlation was learned.",
    }
    states = learned_signals(learned)
    for quantity, help in helps.items():
        gauge = GaugeMetricFamily(f"sureenough_learned_{quantity}", help, labels=labels)
        for one in states:
            for signal, values in one["signals"].items():
                gauge.add_metric([one["model"], str(one["window"]), one["strategy"], signal], values[quantity])
        yield gauge


def upstream_metrics(loads: Sequence[ServerLoad]) -> Iterator[Metric]:
    """What each of several upstream servers does; clients do not learn their addresses."""
    paths = CounterMetricFamily(
        "sureenough_upstream_paths", "Paths by server and what happened to them.", labels=("server", "what")
    )
    tokens = CounterMetricFamily("sureenough_upstream_tokens", "Tokens by server.", labels=("server",))
    helps = {"available": "Whether a server gets paths.", "running": "Paths that run on a server."}
    gauges = {
        name: GaugeMetricFamily(f"sureenough_upstream_{name}", help, labels=("server",)) for name, help in helps.items()
    }
    for number, load in enumerate(loads, 1):
        for what in ("started", "finished", "failed"):
            paths.add_metric([str(number), what], getattr(load, what))
        tokens.add_metric([str(number)], load.tokens)
        for name, gauge in gauges.items():
            gauge.add_metric([str(number)], float(getattr(load, name)))
    yield from (paths, tokens, *gauges.values()) if len(loads) > 1 else ()


class ServerMetrics:
    """The counters of one server, in a registry of its own."""

    def __init__(
        self,
        requests_in_flight: Callable[[], int],
        runs_in_flight: Callable[[], int],
        learned: LearnerStates,
        upstream_loads: Callable[[], Sequence[ServerLoad]],
        replica: str = "",  # its name, if several processes serve one address
    ) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry, self._replica = CollectorRegistry(), replica
        self._learned, self._upstream_loads = learned, upstream_loads
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
        self._gauge("requests_in_flight", "Requests being served.", requests_in_flight)
        self._gauge("runs_in_flight", "Runs in progress.", runs_in_flight)
        self._gauge("tasks", "Tasks of the event loop.", lambda: len(asyncio.all_tasks()))

    def _counter(self, name: str, help: str, *labels: str) -> Counter:
        return Counter(f"sureenough_{name}", help, labels, registry=self.registry)

    def _gauge(self, name: str, help: str, value: Callable[[], float]) -> None:
        Gauge(f"sureenough_{name}", help, registry=self.registry).set_function(value)

    def count_response(self, route: str, status: int, seconds: float) -> None:
        self.requests.labels(route, str(status)).inc()
        self._seconds.observe(seconds)

    def count_run(self, out: Outcome) -> None:
        """Count a run that has ended, its tokens and its paths."""
        self._runs.labels(out.reason).inc()
        for bucket in (*BUCKETS, "prompt"):
            self._tokens.labels(bucket).inc(max(0, getattr(out.tokens, bucket)))
        for what in ("prompt", "reread", "cached", "reread_cached"):
            self._prompts.labels(what).inc(max(0, getattr(out.tokens, what)))
        for what in ("started", "pruned", "failed"):
            self._paths.labels(what).inc(getattr(out, what))

    def text(self) -> bytes:
        """Every metric, in Prometheus' text format."""
        return generate_latest(self)

    def collect(self) -> Iterator[Metric]:
        """Every metric; with a label that names the replica, if it is one: a request reaches any of them."""
        upstreams = upstream_metrics(self._upstream_loads())
        for metric in (*self.registry.collect(), *learned_gauges(self._learned), *upstreams):
            if self._replica:
                own = {"replica": self._replica}
                metric.samples = [sample._replace(labels=sample.labels | own) for sample in metric.samples]
            yield metric
