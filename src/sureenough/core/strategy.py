"""A strategy is a recipe: a warm-up, a calibration, a stop rule, a way to weigh votes; perhaps a search."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from sureenough.core.poll import Poll
from sureenough.core.pruning import Calibrate, no_gate
from sureenough.core.search import SearchMethod
from sureenough.core.stop_rules import ExpectedGain, PlainStopRule, StopRule, never
from sureenough.core.weights import Ballot, BySignals, LearnerState, PlainWeigh, Weigh, by_count
from sureenough.errors import UsageError


@dataclass(frozen=True, slots=True)
class Strategy:
    """What to do with a budget of paths; an ablation is a `dataclasses.replace`."""

    name: str
    warmup: int = 0  # paths that run to their end, unpruned, before anything is decided
    calibrate: Calibrate = no_gate
    stop: StopRule = never
    weigh: Weigh = by_count
    search: SearchMethod | None = None  # None: paths are sampled from the prompt in one go
    explicit_options: tuple[str, ...] = field(default=(), compare=False, repr=False)
    """Options that the caller wrote out, in that order: the spec string repeats them."""

    summary: str = field(default="", compare=False, repr=False)
    """What it does, in a line."""

    if TYPE_CHECKING:  # callers may give plain functions, which become a rule and a weighting

        def __init__(
            self,
            name: str,
            warmup: int = 0,
            calibrate: Calibrate = no_gate,
            stop: StopRule | Callable[[Poll], bool] = never,
            weigh: Weigh | Callable[[Sequence[Ballot], Sequence[float]], Sequence[float]] = by_count,
            search: SearchMethod | None = None,
            explicit_options: tuple[str, ...] = (),
            summary: str = "",
        ) -> None: ...

    def __post_init__(self) -> None:
        if not hasattr(self.stop, "verdict"):
            object.__setattr__(self, "stop", PlainStopRule(self.stop))
        if not hasattr(self.weigh, "settled"):
            object.__setattr__(self, "weigh", PlainWeigh(self.weigh))
        if self.warmup < 0:
            raise UsageError(f"warmup={self.warmup} will not do: warmup is a whole number of at least 0")
        if self.prunes and not self.warmup:
            raise UsageError(f"{self.name} prunes by what its warm-up shows, and has none: give it a warmup")
        if self.search is not None and self.prunes:
            raise UsageError(
                f"{self.name} prunes paths as they grow, but a search puts its paths together itself: leave one of "
                "them out"
            )

    @property
    def prunes(self) -> bool:
        """Whether paths may be cut short."""
        return self.calibrate is not no_gate

    @property
    def reads_confidence(self) -> bool:
        """Whether it needs log-probabilities at all."""
        return self.prunes or self.weigh.reads

    @property
    def state(self) -> LearnerState | None:
        """What it has learned from earlier questions; None if it does not learn."""
        return self.weigh.state if isinstance(self.weigh, BySignals) and self.weigh.weigh == "learned" else None

    def with_state(self, state: LearnerState) -> Strategy:
        """The strategy with what was learned; a strategy that does not learn is returned unchanged."""
        if self.state is None or not isinstance(self.weigh, BySignals):
            return self
        stop = replace(self.stop, trust=state.trust) if isinstance(self.stop, ExpectedGain) else self.stop
        return replace(self, weigh=replace(self.weigh, state=state), stop=stop)
