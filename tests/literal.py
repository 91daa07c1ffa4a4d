"""The rules read literally: loops over windows, numpy's eigendecomposition, one path after another.

Slow, and written apart from the package: the tests hold the package against it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta as beta_distribution

from sureenough.pools import RecordedPath

Floats = NDArray[np.float64]


def instability(window: Floats, before: float | None, eta: float) -> float:
    """R of one window, by the covariance's eigenvectors."""
    n = len(window)
    sd = float(window.std())
    if n < 2 or window.max() == window.min():
        return 0.0
    first = window[0] if before is None else before
    velocity = np.diff(np.concatenate(([first], window)))
    z = np.stack([(window - window.mean()) / sd, velocity / sd], axis=1)
    values, vectors = np.linalg.eigh(z.T @ z / (n - 1))
    small, large = values
    risk = 1 - (large - small) / (large + small)
    fell = window[-1] < first
    return float(risk + (eta * vectors[0, 1] ** 2 if fell and large > small else 0.0))


def window_values(path: RecordedPath, size: int, eta: float) -> tuple[list[float], list[float], list[float]]:
    """Group peak, group conf and R of every window, one after another."""
    peak, conf = np.asarray(path.peak), np.asarray(path.conf)
    n = len(conf)
    length = min(size, n)
    peaks, confs, risks = [], [], []
    for end in range(length, n + 1) if n else ():
        start = end - length
        peaks.append(float(peak[start:end].mean()))
        confs.append(float(conf[start:end].mean()))
        risks.append(instability(conf[start:end], float(conf[start - 1]) if start else None, eta))
    return peaks, confs, risks


@dataclass
class Rules:
    """A strategy's rules, as plain settings."""

    warmup: int = 0
    gate: str = ""  # "", "ddc", "ddc without trend" or "deepconf"
    stop: str = ""  # "", "posterior", "posterior of counts", "two largest", "window of five" or "share"
    weight: str = "one"  # "one", "raw", "mean" or "unit"
    keep: float = 10
    fence: str = "tukey"
    tau: float = 0.95
    gamma: float = 0.5
    eta: float = 0.5
    per_path: bool = False  # drop and fence from the lowest conf and the highest R of each path


@dataclass
class Result:
    """What a literal run came to."""

    answer: str | None = None
    reason: str = "budget"
    started: int = 0
    tokens: dict[str, int] = field(default_factory=lambda: {"init": 0, "kept": 0, "pruned": 0})
    tiers: dict[str, int] = field(default_factory=lambda: {"drop": 0, "risk": 0})
    votes: dict[str, float] = field(default_factory=dict)


def run(paths: Sequence[RecordedPath], rules: Rules, size: int) -> Result:
    """One path at a time, by the book."""
    result = Result()
    ballots: list[tuple[str, float]] = []  # answer, C_path
    by_number: list[str | None] = []
    warm = paths[: rules.warmup]
    values = [window_values(path, size, rules.eta) for path in warm] if rules.weight != "one" else [((), (), ())] * 16
    lowest = [min(confs, default=0.0) for _, confs, _ in values]
    bar, trust, drop, fence = -np.inf, np.inf, -np.inf, np.inf
    if rules.gate == "deepconf":
        bar = drop = float(np.percentile(lowest, 100 - rules.keep))
    if rules.gate.startswith("ddc"):
        trust = float(np.percentile([v for peaks, _, _ in values for v in peaks], 90))
        drop = float(np.percentile([v for _, confs, _ in values for v in confs], 20))
        by_path = [window_values(path, size, rules.eta)[2] for path in warm]
        risks = [v for of_path in by_path for v in of_path]
        if rules.per_path:
            drop = float(np.percentile([min(confs) for _, confs, _ in values if confs], 20))
            risks = [max(of_path) for of_path in by_path if of_path]
        third, first = np.percentile(risks, 75), np.percentile(risks, 25)
        fence = float(third + 1.5 * (third - first)) if rules.fence == "tukey" else float(np.percentile(risks, 90))
        fence = np.inf if "without" in rules.gate else fence
    for path, low in zip(warm, lowest, strict=False):
        result.started += 1
        result.tokens["init"] += path.tokens
        by_number.append(path.answer)
        if path.answer is not None and not low < bar:
            ballots.append((path.answer, low))
    scale = {"mean": float(np.mean(lowest)), "unit": max(lowest)}.get(rules.weight, 1.0) if warm else 1.0

    def weigh(low: float) -> float:
        if rules.weight == "one":
            return 1.0
        if rules.weight == "raw":
            return low
        return 1.0 if scale == 0 else low / scale if rules.weight == "mean" else min(1.0, low / scale)

    def votes(*, counts: bool = False) -> dict[str, float]:
        total: dict[str, float] = {}
        for answer, low in ballots:
            total[answer] = total.get(answer, 0.0) + (1.0 if counts else weigh(low))
        return total

    if warm and settled(votes(), votes(counts=True), by_number, rules):
        result.reason = "settled"
    else:
        for path in paths[rules.warmup :]:
            result.started += 1
            peaks, confs, risks = window_values(path, size, rules.eta) if rules.weight != "one" else ([], [], [])
            cut = None
            if path.tokens >= size:
                for i in range(len(confs)):
                    if peaks[i] > trust:
                        continue
                    if confs[i] < drop:
                        cut = (i + size, "drop")
                        break
                    if risks[i] > fence:
                        cut = (i + size, "risk")
                        break
            by_number.append(path.answer if cut is None else None)
            if cut is not None:
                result.tokens["pruned"] += cut[0]
                result.tiers[cut[1]] += 1
            else:
                result.tokens["kept"] += path.tokens
                if path.answer is not None:
                    ballots.append((path.answer, min(confs, default=0.0)))
            if settled(votes(), votes(counts=True), by_number, rules):
                result.reason = "settled"
                break
    result.votes = votes()
    # max() keeps the first of equals, and answers stand in order of their lowest-numbered path.
    result.answer = max(result.votes, key=lambda answer: result.votes[answer]) if result.votes else None
    return result


def settled(votes: dict[str, float], counts: dict[str, float], by_number: list[str | None], rules: Rules) -> bool:
    """The stop test."""
    if rules.stop == "window of five":
        window = by_number[-5:]
        return len(by_number) % 5 == 0 and None not in window and len(set(window)) == 1
    if not votes or not rules.stop:
        return False
    if rules.stop == "share":
        return sum(votes.values()) > 0 and max(votes.values()) / sum(votes.values()) >= rules.tau
    if rules.stop == "two largest":
        largest = sorted(counts.values(), reverse=True)
        second = largest[1] if len(largest) > 1 else 0
        return bool(beta_distribution.sf(0.5, largest[0] + 1, second + 1) >= rules.tau)
    tally = counts if rules.stop == "posterior of counts" else votes
    leader = max(tally.values())
    others = sum(tally.values()) - leader
    return bool(beta_distribution.sf(rules.gamma, 1 + leader, 1 + others) > rules.tau)


RULES = {
    "sc": Rules(),
    "ac": Rules(stop="two largest"),
    "esc": Rules(stop="window of five"),
    "deepconf-low": Rules(16, "deepconf", "share", "raw", keep=10),
    "deepconf-high": Rules(16, "deepconf", "share", "raw", keep=90),
    "ddc": Rules(16, "ddc", "posterior", "raw"),
    "ddc:weight=mean": Rules(16, "ddc", "posterior", "mean"),
    "ddc:weight=unit": Rules(16, "ddc", "posterior", "unit"),
    "ddc:risk=p90": Rules(16, "ddc", "posterior", "raw", fence="p90"),
    "ddc:per=path": Rules(16, "ddc", "posterior", "raw", per_path=True),
    "ddc-unweighted": Rules(16, "ddc", "posterior of counts", "raw"),
    "ddc-no-width": Rules(16, "ddc", "", "raw"),
    "ddc-no-trend": Rules(16, "ddc without trend", "posterior", "raw"),
    "ddc-no-depth": Rules(16, "", "posterior", "raw"),
}
