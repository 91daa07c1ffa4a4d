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
    limit, typed_limit = table.pop("limit", None), typed.get("limit")
    table |= {name: value for name, value in typed.items() if value is not None and name != "limit"}
    if sampling and table.get("datasets") and table.get("engines") in (None, [], ()):
        table["engines"] = [{}]  # the built-in model
    if sampling and isinstance(table.get("engines"), list):
        table["engines"] = [one | dict(sampling) if isinstance(one, dict) else one for one in table["engines"]]
    if not table.get("datasets") and fallback is not None and table.get("engines") == fallback.get("engines"):
        table.pop("engines", None)  # a server from the environment is used only if there are questions for it
    if isinstance(table.get("datasets"), list | tuple):
        named = [{"dataset": one} if isinstance(one, str) else one for one in table["datasets"]]
        first, last = {"limit": limit}, {} if typed_limit is None else {"limit": typed_limit}
        table["datasets"] = [first | one | last if isinstance(one, dict) else one for one in named]
    return _plan(table, str(file or "the plan"))


def _plan(table: dict[str, Any], where: str) -> BenchPlan:
    _refuse_unknown(table, plan_keys(), where)
    for name, kind in (("datasets", DatasetChoice), ("engines", EngineChoice)):
        for one in table[name] if isinstance(table.get(name), list | tuple) else ():
            _refuse_unknown(one, [field.name for field in fields(kind)], f"{where}, {name}")
    parts = {"options": RunOptions.fields(), "settings": ReplaySettings.fields()}
    nested: dict[str, Any] = {name: table[name] for name in table if not any(name in known for known in parts.values())}
    for part, known in parts.items():
        nested[part] = {name: value for name, value in table.items() if name in known}
    nested["replay_hurry"] = nested["options"].get("hurry")
    nested["options"] = {name: getattr(LIVE_DEFAULTS, name) for name in ("parallel", "hurry")} | nested["options"]
    try:
        return msgspec.convert(nested, BenchPlan, strict=True)
    except msgspec.ValidationError as error:
        if isinstance(error.__cause__, UsageError):
            raise error.__cause__ from None
        raise UsageError(f"{where}: {error}") from None


def plan_keys() -> list[str]:
    """Every key of a plan, except `limit`, which is part of its datasets."""
    own = [field.name for field in fields(BenchPlan) if field.name not in ("options", "settings", "replay_hurry")]
    return [*own, *RunOptions.fields(), *ReplaySettings.fields()]


def _refuse_unknown(table: Any, known: Sequence[str], where: str) -> None:
    if not isinstance(table, dict):
        raise UsageError(f"{where}: {table!r} is not a table of {', '.join(known)}")
    for name in table:
        if name not in known:
            raise UsageError(f"{where}: unknown key {name!r}; known: {', '.join(map(repr, known))}")
