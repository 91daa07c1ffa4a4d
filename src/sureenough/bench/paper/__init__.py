"""The paper's tables and figures and our own, each a named experiment."""

from __future__ import annotations

from typing import Final

from sureenough.bench.experiment import Experiment, Inputs
from sureenough.bench.paper import live, replayed, single_paths
from sureenough.bench.paper.published import printed, value
from sureenough.errors import UsageError

EXPERIMENTS: Final[dict[str, Experiment]] = {
    one.name: one
    for one in (
        replayed.MAIN,
        replayed.ABLATION,
        replayed.WIDTHS,
        live.LATENCY,
        replayed.INIT_SIZE,
        replayed.WINDOW,
        replayed.FENCE,
        replayed.SCALING,
        single_paths.CALIBRATION,
        single_paths.THEOREM,
        live.SEARCH,
    )
}


def experiment(name: str) -> Experiment:
    """By name; an unknown one is refused with the known ones."""
    if name not in EXPERIMENTS:
        raise UsageError(f"unknown experiment {name!r}; known: {', '.join(EXPERIMENTS)}")
    return EXPERIMENTS[name]


__all__ = ["EXPERIMENTS", "Experiment", "Inputs", "experiment", "printed", "value"]
