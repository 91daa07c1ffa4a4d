"""A plan: datasets × engines × strategies × sweeps × repeats, from a TOML file, from the command line, or from both.

What is typed wins over the file. Unknown names are refused with the known ones. The names of a run's options and of
the replay's settings come from `RunOptions` and `ReplaySettings`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Final

import msgspec

from sureenough.bench.pipeline import ReplaySettings
from sureenough.core.options import LIVE_DEFAULTS, RunOptions, check_count
from sureenough.errors import UsageError
from sureenough.spec import options, parse, render

PAPER_PATHS: Final = 512
"""The paper's budget, for plans that record and do not say how much."""


@dataclass(frozen=True, slots=True)
class DatasetChoice:
    """A dataset of the plan: `math500`, `math500=FILE`, or a FILE of your own."""

    dataset: str
    limit: int | None = None
    columns: dict[str, str] = field(default_factory=dict)
    kind: str | None = None
    template: str | None = None


@dataclass(frozen=True, slots=True)
class EngineChoice:
    """An engine of the plan: a model behind one URL or several; without any, the built-in one."""

    model: str | None = None
    url: str | tuple[str, ...] = ()
    engine: str | None = None  # of another package: its name, or module:attribute
    name: str | None = None  # in tables and file names; the model's by default
    temperature: float = 0.6
    top_p: float = 0.95
    max_path_tokens: int | None = None
    completions: bool = False
    first_token: float = 300.0
    stall: float = 60.0

    @property
    def urls(self) -> tuple[str, ...]:
        return (self.url,) if isinstance(self.url, str) else self.url


@dataclass(frozen=True, slots=True)
class BenchPlan:
    """Everything that is to be measured."""

    experiment: str = "main"
    datasets: tuple[DatasetChoice, ...] = ()
    engines: tuple[EngineChoice, ...] = ()
    pools: tuple[str, ...] = ()  # recorded before
    strategies: tuple[str, ...] | None = None
    sweeps: dict[str, tuple[int | float | str, ...]] = field(default_factory=dict)  # options of strategies
    sweep: tuple[float, ...] | None = None  # the values of the experiment's own sweep
    options: RunOptions = field(default_factory=lambda: replace(LIVE_DEFAULTS, paths=None))
    replay_parallel: int = 1  # `parallel` is for live engines
    replay_hurry: float | None = None  # live engines have one by default, recorded paths only if the plan says so
    settings: ReplaySettings = field(default_factory=ReplaySettings)
    live: bool = False  # also run every strategy on a live engine
    live_repeats: int = 1
    at_once: int | None = None  # questions at once in live runs; one per URL by default
    text: bool = True  # keep the text of recorded paths

    def __post_init__(self) -> None:
        for name in ("replay_parallel", "live_repeats", "at_once"):
            if getattr(self, name) is not None:
                check_count(name, getattr(self, name))
        names = [engine.name or engine.model or engine.engine for engine in self.engines]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise UsageError(f'two engines are called {twice!r}; give each a name of its own: name = "…"')
        if self.sweeps and not self.strategies:
            raise UsageError("a sweep needs strategies whose options it sets: -s ddc --sweep warmup=8,16")
        self.specs()

    @property
    def budget(self) -> int:
        """Paths recorded per question."""
        return self.options.paths or PAPER_PATHS

    def specs(self) -> tuple[str, ...] | None:
        """The strategies, with every combination of the sweeps for those that have the option."""
        if self.strategies is None:
            return None
        specs = [spec for text in self.strategies for spec in _swept(text, self.sweeps)]
        unused = [name for name in self.sweeps if not any(name in options(parse(s)) for s in self.strategies)]
        if unused:
            raise UsageError(
                f"none of {', '.join(self.strategies)} has an option {unused[0]!r} to sweep; `sureenough strategies` "
                "lists them, and the experiments window and scaling sweep windows and budgets"
            )
        return tuple(dict.fromkeys(specs))


def _swept(text: str, sweeps: Mapping[str, Sequence[int | float | str]]) -> list[str]:
    known = options(parse(text))
    specs = [text]
    for name, values in sweeps.items():
        if name in known:
            specs = [f"{spec}{',' if ':' in spec else ':'}{name}={value}" for spec in specs for value in values]
    return [render(parse(spec)) for spec in specs]


def read_plan(
    file: Path | None,
    typed: Mapping[str, Any],
    *,
    sampling: Mapping[str, Any] | None = None,
    fallback: Mapping[str, Any] | None = None,
) -> BenchPlan:
    """The file's plan, overridden by what was typed.

    Args:
        file: TOML.
        typed: fields of a plan, and `limit` for all datasets; None for what was not typed.
        sampling: fields of an EngineChoice that were typed, for all engines of the plan.
        fallback: values that neither the file nor the caller gives.
    """
    table: dict[str, Any] = {}
    if file is not None:
        try:
            table = tomllib.loads(file.read_text("utf-8"))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
            raise UsageError(f"{file} cannot be used: {getattr(error, 'strerror', None) or error}") from None
    table = dict(fallback or {}) | {name.replace("-", "_"): value for name, value in table.items()}
    table |= {name: value for name, value in typed.items() if value is not None}
    if sampling and table.get("datasets") and table.get("engines") in (None, [], ()):
        table["engines"] = [{}]  # the built-in model
    if sampling and isinstance(table.get("engines"), list):
        table["engines"] = [one | dict(sampling) if isinstance(one, dict) else one for one in table["engines"]]
    if not table.get("datasets") and fallback is not None and table.get("engines") == fallback.get("engines"):
        table.pop("engines", None)  # a server from the environment is used only if there are questions for it
    limit = table.pop("limit", None)
    return _plan(table, limit, str(file or "the plan"), override=typed.get("limit") is not None)


def _plan(table: dict[str, Any], limit: int | None, where: str, *, override: bool) -> BenchPlan:
    if isinstance(table.get("datasets"), list | tuple):
        table["datasets"] = [_dataset(one, limit, where, override=override) for one in table["datasets"]]
    if isinstance(engines := table.get("engines"), list | tuple):
        for one in engines:
            _refuse_unknown(one, _names(EngineChoice), f"{where}, engines")
    own = _own_keys()
    _refuse_unknown(table, plan_keys(), where)
    nested = {name: value for name, value in table.items() if name in own}
    given = _only(table, RunOptions.fields())
    run_options = {"parallel": LIVE_DEFAULTS.parallel, "hurry": LIVE_DEFAULTS.hurry} | given
    nested |= {"options": run_options, "settings": _only(table, ReplaySettings.fields())}
    nested["replay_hurry"] = given.get("hurry")
    try:
        return msgspec.convert(nested, BenchPlan, strict=True)
    except msgspec.ValidationError as error:
        if isinstance(error.__cause__, UsageError):
            raise error.__cause__ from None
        raise UsageError(f"{where}: {error}") from None


def plan_keys() -> list[str]:
    """Every key of a plan, except `limit`, which is part of its datasets."""
    return [*_own_keys(), *RunOptions.fields(), *ReplaySettings.fields()]


def _own_keys() -> list[str]:
    return [name for name in _names(BenchPlan) if name not in ("options", "settings", "replay_hurry")]


def _dataset(one: Any, limit: int | None, where: str, *, override: bool) -> Any:
    table = {"dataset": one} if isinstance(one, str) else one
    if limit is not None and isinstance(table, dict):
        table = table | {"limit": limit} if override else {"limit": limit} | table
    _refuse_unknown(table, _names(DatasetChoice), f"{where}, datasets")
    return table


def _names(kind: Any) -> list[str]:
    return [one.name for one in fields(kind)]


def _only(table: Mapping[str, Any], names: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in table.items() if name in names}


def _refuse_unknown(table: Any, known: Sequence[str], where: str) -> None:
    if not isinstance(table, dict):
        raise UsageError(f"{where}: {table!r} is not a table of {', '.join(known)}")
    for name in table:
        if name not in known:
            raise UsageError(f"{where}: unknown key {name!r}; known: {', '.join(map(repr, known))}")
