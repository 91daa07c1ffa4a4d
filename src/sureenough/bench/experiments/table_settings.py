"""The note that every table ends with: the window, budget, repeats and scale of weights that its numbers depend on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from sureenough.bench.cells import CellResult
from sureenough.bench.pipeline import OpenPool
from sureenough.bench.result import grouped
from sureenough.core.strategy import Strategy
from sureenough.core.weights import ByCount, ByLowest, BySignals, BySoftmax
from sureenough.spec import resolve

PREFIX: Final = "Settings: "
VARIED: Final = "as in the table"
NONE: Final = "none"


def settings_note(
    *, window: object = NONE, budget: object = NONE, repeats: object = NONE, weights: str = NONE, more: str = ""
) -> str:
    """The settings in one line; what plays no part is `none`."""
    return f"{PREFIX}window {window}; budget {budget}; repeats {repeats}; weights {weights}{more}"


def settings_of(lines: Sequence[CellResult]) -> str:
    """The settings of replayed cells."""
    options = lines[0].cell.options
    return settings_note(
        window=_by_dataset(lines, lambda line: line.cell.options.window),
        budget=_by_dataset(lines, _budget),
        repeats=f"{lines[0].row.repeats} (orders of the recorded paths, seed {options.seed})",
        weights=weight_scales(dict.fromkeys(line.cell.strategy for line in lines)),
    )


def pool_windows(pools: Iterable[OpenPool]) -> str:
    """The windows of pools that were read path by path."""
    windows = {pool.source.dataset: pool.window for pool in pools}
    same = len(set(windows.values())) == 1
    return str(next(iter(windows.values()))) if same else ", ".join(f"{name} {n}" for name, n in windows.items())


def _budget(line: CellResult) -> str:
    options, recorded = line.cell.options, max(line.paths, default=0)
    paths = f"{options.paths or recorded} paths"
    if options.paths is not None and options.paths > recorded:
        paths += f" ({recorded} recorded, all used)"
    return paths if options.max_tokens is None else f"{paths}, {options.max_tokens:,} tokens"


def _by_dataset(lines: Sequence[CellResult], value: Callable[[CellResult], object]) -> str:
    """One value for all lines, or one per dataset; cells of a dataset that differ are told apart by the table."""
    values = dict.fromkeys((line.source.dataset, str(value(line))) for line in lines)
    if len(values) > len({dataset for dataset, _ in values}):
        return VARIED
    texts = grouped(values, lambda pair: pair[1])
    if len(texts) == 1:
        return next(iter(texts))
    return ", ".join(f"{text} on {' and '.join(dataset for dataset, _ in pairs)}" for text, pairs in texts.items())


def weight_scales(strategies: Iterable[str | Strategy]) -> str:
    """The scale that all strategies have in common, or each with the strategies that have it."""
    scales = grouped(strategies, lambda strategy: weight_scale(resolve(strategy)))
    if len(scales) == 1:
        return next(iter(scales))
    names = {scale: [getattr(one, "name", one) for one in same] for scale, same in scales.items()}
    return ", ".join(f"{scale} ({', '.join(map(str, same))})" for scale, same in names.items())


def weight_scale(strategy: Strategy) -> str:
    """The scale of a strategy's weights, on which its stop test depends."""
    weigh = strategy.weigh
    if isinstance(weigh, ByCount) or (isinstance(weigh, BySignals) and weigh.weigh == "count"):
        return "1 per path"
    if isinstance(weigh, BySignals | BySoftmax):
        return "effective votes"
    scale = "raw" if isinstance(weigh, ByLowest) else getattr(weigh, "weight", None)
    return f"C_path {scale}" if scale else "its own"
