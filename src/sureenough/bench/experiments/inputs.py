"""What an experiment is given: pools, settings, live runs, and somebody to tell how far it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from math import inf
from typing import Any, Literal, Protocol

from sureenough.bench.result import ExperimentResult
from sureenough.bench.source import Source
from sureenough.errors import UsageError

Live = Literal["no", "optional", "needed"]


class LiveRow(Protocol):
    """One question under one strategy on a live engine; `sureenough.bench.live.LiveRun` is one."""

    @property
    def dataset(self) -> str: ...
    @property
    def model(self) -> str: ...
    @property
    def strategy(self) -> str: ...
    @property
    def question(self) -> str: ...
    @property
    def repeat(self) -> int: ...
    @property
    def right(self) -> bool | None:
        """None where the question has no gold answer."""

    @property
    def reason(self) -> str: ...
    @property
    def tokens(self) -> Mapping[str, int]:
        """By bucket, and `total`."""

    @property
    def started(self) -> int: ...
    @property
    def pruned(self) -> int: ...
    @property
    def tiers(self) -> Mapping[str, int]: ...
    @property
    def steps(self) -> int: ...
    @property
    def init_seconds(self) -> float:
        """From the question to the end of the warm-up; 0 where the strategy has none."""

    @property
    def final_seconds(self) -> float:
        """From there to the answer."""

    @property
    def total_seconds(self) -> float: ...


@dataclass(frozen=True, slots=True)
class ExperimentSettings:
    """What the caller may choose; None means what the experiment, or the paper, takes."""

    strategies: tuple[str, ...] | None = None
    paths: int | None = None  # budget; 512 in the paper
    window: int | None = None  # what the pool suggests
    parallel: int = 1
    repeats: int = 5
    seed: int = 0
    equal: Literal["meaning", "string"] = "meaning"
    symbolic_seconds: float | None = None
    skip_damaged: bool = False
    jobs: int = 1  # processes; more need a script's `if __name__ == "__main__":`
    sweep: tuple[float, ...] | None = None  # the values of init-size, window, fence or scaling
    betas: tuple[tuple[float, float, float, float, float], ...] | None = None
    """theorem: (p, a_right, b_right, a_wrong, b_wrong), Beta parameters of the weights of right and wrong paths."""

    def told(self) -> dict[str, Any]:
        """Those that were chosen, for the provenance; `jobs` moves no number."""
        mine = ((f.name, getattr(self, f.name), f.default) for f in fields(self))
        return {name: value for name, value, usual in mine if value != usual and name != "jobs"}


def silent(done: int, total: int) -> None:
    """Nobody listens."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """Everything an experiment may look at."""

    sources: Sequence[Source] = ()
    settings: ExperimentSettings = field(default_factory=ExperimentSettings)
    live_runs: Sequence[LiveRow] = ()
    progress: Callable[[int, int], None] = silent
    command: str = ""  # as the user typed it, for the provenance


@dataclass(frozen=True, slots=True)
class Experiment:
    """A table or figure of the paper by name."""

    name: str
    about: str  # a line
    run: Callable[[Inputs], ExperimentResult]
    live: Live = "no"


def whole(what: str, values: Sequence[float]) -> list[int]:
    """A sweep's values as whole numbers; refuses others."""
    bad = [value for value in values if not 1 <= value < inf or value != int(value)]
    if bad:
        raise UsageError(f"{what} of {bad[0]:g} will not do: it is a whole number of at least 1")
    return [int(value) for value in values]
