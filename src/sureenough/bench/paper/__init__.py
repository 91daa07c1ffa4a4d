"""The paper's tables and figures and our own, each a named experiment."""

from __future__ import annotations

from typing import Final

from sureenough.bench.experiment import Experiment, Inputs
from sureenough.bench.paper import (
    calibration,
    ddc_parts,
    failure_modes,
    latency,
    live_tables,
    main,
    overhead,
    scaling,
    theorem,
)
from sureenough.bench.paper.published import printed, value
from sureenough.errors import UsageError

EXPERIMENTS: Final[dict[str, Experiment]] = {
    one.name: one
    for one in (
        main.EXPERIMENT,
        ddc_parts.ABLATION,
        main.WIDTH,
        latency.EXPERIMENT,
        ddc_parts.INIT_SIZE,
        ddc_parts.WINDOW,
        ddc_parts.FENCE,
        scaling.EXPERIMENT,
        calibration.EXPERIMENT,
        theorem.EXPERIMENT,
        overhead.EXPERIMENT,
        failure_modes.EXPERIMENT,
        live_tables.SEARCH,
    )
}


def experiment(name: str) -> Experiment:
    """By name; an unknown one is refused with the known ones."""
    if name not in EXPERIMENTS:
        raise UsageError(f"unknown experiment {name!r}; known: {', '.join(EXPERIMENTS)}")
    return EXPERIMENTS[name]


__all__ = ["EXPERIMENTS", "Experiment", "Inputs", "experiment", "printed", "value"]
