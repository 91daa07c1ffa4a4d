"""The last step of every experiment: its tables and figures with the command, versions and hashes that made them."""

from __future__ import annotations

import platform
import shlex
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
import scipy

from sureenough.bench.experiments.inputs import Inputs
from sureenough.bench.parallel import PoolResults
from sureenough.bench.result import ExperimentResult, Figure, PoolUsed, Provenance, Table
from sureenough.version import __version__


class Clock:
    """Started when an experiment begins."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    def seconds(self) -> float:
        """Since then."""
        return round(time.monotonic() - self._began, 3)


def finish(
    name: str,
    title: str,
    inputs: Inputs,
    clock: Clock,
    *,
    tables: Sequence[Table],
    figures: Sequence[Figure] = (),
    notes: Sequence[str] = (),
    seen: Sequence[PoolResults[Any]] = (),
) -> ExperimentResult:
    """The result, with its provenance."""
    pools = [
        PoolUsed(o.source.dataset, o.source.model, o.pool.file.name, o.sha256, o.questions, o.pool.rows)
        for o in (one.opened for one in seen)
    ]
    provenance = Provenance(
        command=inputs.command or _command(name, inputs),
        versions={
            "sureenough": __version__,
            "python": platform.python_version(),
            "numpy": np.__version__,
            "scipy": scipy.__version__,
        },
        pools=pools,
        settings=inputs.settings.told(),
        seconds=clock.seconds(),
        date=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    return ExperimentResult(name, title, list(tables), list(figures), list(dict.fromkeys(notes)), provenance)


def _command(name: str, inputs: Inputs) -> str:
    """What a user would type for these inputs; pools by their file names."""
    words = ["sureenough", "bench", name]
    for source in inputs.sources:
        words += ["--pool", source.pool.name]
    return shlex.join(words)
