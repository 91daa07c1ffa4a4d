"""Model names with a strategy: in `Qwen3-4B@ddc:tau=0.99` the part after the last `@` is one."""

from __future__ import annotations

from typing import Final, NamedTuple

from sureenough.errors import UsageError
from sureenough.server.errors import bad_request
from sureenough.spec import is_strategy_name, parse
from sureenough.strategies import STRATEGIES

LISTED_STRATEGIES: Final = tuple(name for name in STRATEGIES if not name.startswith("ddc-") and "+" not in name)
"""The strategies in lists of models. The ablations of ddc work too, but few readers want them; searches work
if the upstream continues a beginning."""
PAGE_STRATEGIES: Final = tuple(name for name in STRATEGIES if not name.startswith("ddc-"))
"""The strategies on the page, which draws searches."""


class ModelName(NamedTuple):
    """The upstream's name of a model, and the strategy that followed it."""

    model: str
    strategy: str | None


def split_model_name(name: str) -> ModelName:
    """Model and strategy. What follows an `@` without naming a strategy is part of the model's name."""
    model, at, spec = name.rpartition("@")
    if at and is_strategy_name(spec.strip().partition(":")[0]):
        return ModelName(model, spec)
    return ModelName(name, None)


def check_strategy(spec: str) -> None:
    """Refuse what follows the `@` of a model that is offered, if it is not a strategy."""
    try:
        parse(spec)
    except UsageError as error:
        raise bad_request(f"{error}.", "model") from None


def names_with_strategies(models: list[str]) -> list[str]:
    """Every model, plain and with each strategy."""
    return [name for model in models for name in (model, *(f"{model}@{strategy}" for strategy in LISTED_STRATEGIES))]
