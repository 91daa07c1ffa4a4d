"""Every built-in strategy by name. To add one, add an entry to `STRATEGIES`.

sc: Wang et al., 2023. ac: Aggarwal et al., 2023. esc: Li et al., 2024. cisc: Taubenfeld et al., 2025. reasc: the two
stages of reliability-aware self-consistency, with constants of our own. deepconf: Fu et al., 2025. The ddc-… entries
are the paper's ablations, each with one part replaced. predictive: Ma et al., 2024. phi: Xu et al., 2025. mur: Yan et
al., 2025. sure and certified are our own: docs/sure.md.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from sureenough.core.pruning import Keep, Stratified, TwoTiers, no_gate
from sureenough.core.search import Mur, Phi, Predictive, SearchMethod
from sureenough.core.stop_rules import (
    Certified,
    ExpectedGain,
    OneSampleGate,
    Posterior,
    Share,
    TwoLargest,
    Unanimous,
    never,
)
from sureenough.core.strategy import Strategy
from sureenough.core.weights import ByConfidence, ByLowest, BySignals, BySoftmax, by_count
from sureenough.errors import UsageError

DDC: Final = Strategy(
    "ddc",
    warmup=16,
    calibrate=Stratified(),
    stop=Posterior(),
    weigh=ByConfidence(),
    summary="dual-dimensional consistency: a weighted posterior stops sampling, three tiers prune paths",
)

STRATEGIES: Final[dict[str, Strategy]] = {
    "sc": Strategy("sc", weigh=by_count, summary="self-consistency: the whole budget, then the majority"),
    "ac": Strategy(
        "ac",
        stop=TwoLargest(),
        weigh=by_count,
        summary="adaptive-consistency: stop when the leader is almost certain to beat the next answer",
    ),
    "esc": Strategy(
        "esc",
        stop=Unanimous(),
        weigh=by_count,
        summary="early-stopping SC: stop when a whole batch of paths agrees",
    ),
    "cisc": Strategy(
        "cisc",
        weigh=BySoftmax(),
        summary="confidence-informed SC: the whole budget; votes weigh the softmax of confidence",
    ),
    "reasc": Strategy(
        "reasc",
        stop=OneSampleGate(),
        weigh=BySoftmax(),
        summary="reliability-aware SC: one confident path decides, else a Beta test on weighed votes",
    ),
    "deepconf-low": Strategy(
        "deepconf-low",
        warmup=16,
        calibrate=Keep(10.0),
        stop=Share(),
        weigh=ByLowest(),
        summary="DeepConf, strict: paths must be as confident as the best tenth of the warm-up",
    ),
    "deepconf-high": Strategy(
        "deepconf-high",
        warmup=16,
        calibrate=Keep(90.0),
        stop=Share(),
        weigh=ByLowest(),
        summary="DeepConf, lenient: only paths below the worst tenth of the warm-up are stopped",
    ),
    "ddc": DDC,
    "ddc-unweighted": replace(
        DDC,
        name="ddc-unweighted",
        stop=Posterior(weighted=False),
        summary="ddc whose stop test counts each path as 1; the final vote keeps its weights",
    ),
    "ddc-no-width": replace(DDC, name="ddc-no-width", stop=never, summary="ddc without its stop test"),
    "ddc-no-trend": replace(DDC, name="ddc-no-trend", calibrate=TwoTiers(), summary="ddc without the trend tier"),
    "ddc-no-depth": replace(DDC, name="ddc-no-depth", calibrate=no_gate, summary="ddc without pruning"),
    "certified": Strategy(
        "certified",
        stop=Certified(),
        weigh=by_count,
        summary="stop when the leader is certified to be the model's most frequent answer",
    ),
    "sure": Strategy(
        "sure",
        stop=ExpectedGain(),
        weigh=BySignals(),
        summary="stop when more paths would gain too little; weights learn which confidence to trust",
    ),
}

SEARCHES: Final[dict[str, SearchMethod]] = {"predictive": Predictive(), "phi": Phi(), "mur": Mur()}
"""Methods that search for a path, before the `+` of a strategy's name."""


def searching(method: str, strategy: Strategy) -> Strategy:
    """The strategy on paths that this method searches for; one that searches itself is refused."""
    if strategy.search is not None:
        raise UsageError(f"{method}+{strategy.name} names two searches, and a path has one: leave one of them out")
    summary = f"{strategy.name} over paths that {method} decoding puts together from the likeliest continuations"
    return replace(strategy, name=f"{method}+{strategy.name}", search=SEARCHES[method], summary=summary)


for _name in SEARCHES:
    STRATEGIES[f"{_name}+sc"] = searching(_name, STRATEGIES["sc"])

DEFAULT_STRATEGY: Final = "sure"
"""Of every verb, of Python, of the server and of its page."""

COMPARED: Final = ("sc", "ac", "esc", "deepconf-low", "deepconf-high", "ddc", "sure")
"""The strategies that `replay` and `bench` compare by default."""
