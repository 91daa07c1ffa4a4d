"""The paper's own numbers (its tables 1 to 7, `published.csv`), as printed; tables show them beside ours, marked."""

from __future__ import annotations

import csv
import re
from functools import cache
from importlib.resources import files
from typing import Final, NamedTuple

AVERAGE: Final = "Avg."


class Printed(NamedTuple):
    """One number of the paper."""

    table: int
    model: str
    setting: str  # a strategy's spec string, or `window=512`
    dataset: str
    measure: str  # accuracy in %, tokens in 10^7, seconds, paths
    value: float


@cache
def printed() -> tuple[Printed, ...]:
    text = (files("sureenough.bench.paper") / "published.csv").read_text(encoding="utf-8")
    lines = csv.DictReader(text.splitlines())
    return tuple(
        Printed(int(r["table"]), r["model"], r["setting"], r["dataset"], r["measure"], float(r["value"])) for r in lines
    )


@cache
def _index() -> dict[tuple[int, str, str, str, str], float]:
    return {(p.table, _normalised(p.model), p.setting, _normalised(p.dataset), p.measure): p.value for p in printed()}


def value(table: int, model: str, dataset: str, setting: str, measure: str) -> float | None:
    """The number printed for this model and dataset; None if the paper has none."""
    return _index().get((table, _normalised(model.rsplit("/", 1)[-1]), setting, _normalised(dataset), measure))


def _normalised(name: str) -> str:
    """MATH-500, math500 and Math 500 are the same."""
    return re.sub(r"[^a-z0-9.]", "", name.lower()).removesuffix(".")
