"""`Qwen3-4B@ddc:tau=0.99`: what follows the last `@` is a strategy, where it names one; else all is the model."""

from __future__ import annotations

from typing import Final, NamedTuple

from sureenough.strategies import STRATEGIES

OFFERED: Final = ("sure", "ddc", "deepconf-low", "deepconf-high", "esc", "ac", "sc")
"""Listed beside every model; the others can be asked for too."""


class ModelName(NamedTuple):
    """A model's name as the upstream knows it, and the strategy that rode in it."""

    model: str
    strategy: str | None


def split_model_name(name: str) -> ModelName:
    """A name as a client writes it."""
    model, at, spec = name.rpartition("@")
    if at and spec.strip().partition(":")[0] in STRATEGIES:
        return ModelName(model, spec)
    return ModelName(name, None)


def listed(models: list[str], made: int) -> list[dict[str, object]]:
    """The models, plain and with each strategy, as `/v1/models` lists them."""
    names = [one for model in models for one in (model, *(f"{model}@{strategy}" for strategy in OFFERED))]
    return [{"id": name, "object": "model", "created": made, "owned_by": "sureenough"} for name in names]
