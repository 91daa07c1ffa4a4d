"""What the server has learned of each model's confidence, as it is shown to operators and to the page."""

from __future__ import annotations

from typing import Any, Final

from sureenough.core.learning import SIGNALS
from sureenough.core.weights import BySignals
from sureenough.errors import UsageError
from sureenough.pools import Learner
from sureenough.spec import parse

LEARNED_FILE: Final = "learned.json"
"""In the folder of `serve --state`."""


def learned_signals(learner: Learner) -> list[dict[str, Any]]:
    """For each model, window and strategy: questions, and by signal r, beta and the questions behind them.

    Beta is 0 for strategies whose votes do not use what was learned; the window is 0 for those without confidence.
    """
    shown = []
    for key, state in learner.known().items():
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
