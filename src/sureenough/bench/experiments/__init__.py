"""The paper's tables and figures, each a named experiment: a file here and a line in the dict."""

from __future__ import annotations

from typing import Final

from sureenough.bench.experiments import (
    ablation,
    calibration,
    failure_modes,
    fence,
    init_size,
    latency,
    main,
    overhead,
    scaling,
    theorem,
    width,
    window,
)
from sureenough.bench.experiments.inputs import Experiment, ExperimentSettings, Inputs, LiveRow
from sureenough.errors import UsageError

EXPERIMENTS: Final[dict[str, Experiment]] = {
    "main": main.EXPERIMENT,
    "ablation": ablation.EXPERIMENT,
    "width": width.EXPERIMENT,
    "latency": latency.EXPERIMENT,
    "init-size": init_size.EXPERIMENT,
    "window": window.EXPERIMENT,
    "fence": fence.EXPERIMENT,
    "scaling": scaling.EXPERIMENT,
    "calibration": calibration.EXPERIMENT,
    "theorem": theorem.EXPERIMENT,
    "overhead": overhead.EXPERIMENT,
    "failure-modes": failure_modes.EXPERIMENT,
}


def experiment(name: str) -> Experiment:
    """By name; an unknown one is refused with the known ones."""
    if name not in EXPERIMENTS:
        raise UsageError(f"unknown experiment {name!r}; known: {', '.join(EXPERIMENTS)}")
    return EXPERIMENTS[name]


__all__ = ["EXPERIMENTS", "Experiment", "ExperimentSettings", "Inputs", "LiveRow", "experiment"]
