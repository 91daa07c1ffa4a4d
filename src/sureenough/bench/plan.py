"""A plan: datasets × engines × strategies × sweeps × repeats, from a TOML file, from flags, or from both.

What is typed wins over the file. Unknown names are refused with the known ones.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from sureenough.errors import UsageError
from sureenough.spec import options, parse, render

PAPER_PATHS: Final = 512
"""The paper's budget, where a plan records and says nothing."""


@dataclass(frozen=True, slots=True)
class DatasetChoice:
    """A dataset of the plan: `math500`, `math500=FILE`, or a FILE of one's own."""

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
    name: str | None = None  # in tables and file names; the model's by default
    temperature: float = 0.6
    top_p: float = 0.95
    max_path_tokens: int | None = None
    completions: bool = False
    first_token: float = 300.0
    stall: float = 60.0

    @property
    def urls(self) -> tuple[str, ...]:
        """All of them."""
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
    paths: int | None = None
    window: int | None = None
    parallel: int = 16  # paths at once on a live engine
    replay_parallel: int = 1
    repeats: int = 5  # orders in replay
    seed: int = 0
    equal: Literal["meaning", "string"] = "meaning"
    live: bool = False  # run every strategy for real, too
    live_repeats: int = 1
    at_once: int | None = None  # questions at once in live runs; one a URL by default
    text: bool = True  # keep the text of recorded paths
    jobs: int | None = None

    def __post_init__(self) -> None:
        for name in ("paths", "window", "parallel", "replay_parallel", "repeats", "live_repeats", "at_once", "jobs"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise UsageError(f"{name} is {value}; it must be at least 1")
        names = [engine.name or engine.model for engine in self.engines]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise UsageError(f'two engines are called {twice!r}; give each a name of its own: name = "…"')
        if self.sweeps and not self.strategies:
            raise UsageError("a sweep needs strategies whose options it sets: -s ddc --sweep warmup=8,16")
        self.specs()

    @property
    def budget(self) -> int:
        """Paths a question that are recorded."""
        return self.paths or PAPER_PATHS

    def specs(self) -> tuple[str, ...] | None:
        """The strategies with every combination of the sweeps that they have an option for."""
        if self.strategies is None:
            return None
        found = [spec for text in self.strategies for spec in _swept(text, self.sweeps)]
        unused = [name for name in self.sweeps if not any(name in options(parse(s)) for s in self.strategies)]
        if unused:
            raise UsageError(
                f"none of {', '.join(self.strategies)} has an option {unused[0]!r} to sweep; `sureenough strategies` "
                "lists them, and the experiments window and scaling sweep windows and budgets"
            )
        return tuple(dict.fromkeys(found))


def _swept(text: str, sweeps: Mapping[str, Sequence[int | float | str]]) -> list[str]:
    known = options(parse(text))
    specs = [text]
    for name, values in sweeps.items():
        if name in known:
            specs = [_with(spec, name, value) for spec in specs for value in values]
    return [render(parse(spec)) for spec in specs]


def _with(spec: str, name: str, value: object) -> str:
    return f"{spec}{',' if ':' in spec else ':'}{name}={value}"


def read_plan(
    file: Path | None,
    typed: Mapping[str, Any],
    *,
    sampling: Mapping[str, Any] | None = None,
    fallback: Mapping[str, Any] | None = None,
) -> BenchPlan:
    """The file's plan, and over it what was typed; None stands for what was not.

    Args:
        file: TOML.
        typed: fields of a Plan, and `limit` for all datasets.
        sampling: fields of a Server that were typed: for all engines of the plan.
        fallback: what holds where neither the file nor the caller says anything.
    """
    table: dict[str, Any] = {}
    if file is not None:
        try:
            table = tomllib.loads(file.read_text("utf-8"))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise UsageError(f"{file} cannot be used: {getattr(error, 'strerror', None) or error}") from None
    where = str(file) if file is not None else "the plan"
    table = dict(fallback or {}) | {name.replace("-", "_"): value for name, value in table.items()}
    table |= {name: value for name, value in typed.items() if value is not None}
    if sampling and isinstance(table.get("engines"), list):
        table["engines"] = [one | dict(sampling) if isinstance(one, dict) else one for one in table["engines"]]
    if not table.get("datasets") and fallback is not None and table.get("engines") == fallback.get("engines"):
        table.pop("engines", None)  # a server that nobody named for this is not asked without questions
    return _plan(table, table.pop("limit", None), where, wins=typed.get("limit") is not None)


def _plan(table: dict[str, Any], limit: int | None, where: str, *, wins: bool) -> BenchPlan:
    if isinstance(table.get("datasets"), list | tuple):
        table["datasets"] = [_chosen(one, limit, where, wins=wins) for one in table["datasets"]]
    for name in ("engines",):
        for one in table.get(name, ()):
            _refuse_unknown(one, EngineChoice, f"{where}, {name}")
    _refuse_unknown(table, BenchPlan, where)
    try:
        return msgspec.convert(table, BenchPlan, strict=True)
    except msgspec.ValidationError as error:
        if isinstance(error.__cause__, UsageError):
            raise error.__cause__ from None
        raise UsageError(f"{where}: {error}") from None


def _chosen(one: Any, limit: int | None, where: str, *, wins: bool) -> Any:
    table = {"dataset": one} if isinstance(one, str) else one
    if limit is not None and isinstance(table, dict):
        table = table | {"limit": limit} if wins else {"limit": limit} | table
    _refuse_unknown(table, DatasetChoice, f"{where}, datasets")
    return table


def _refuse_unknown(table: Any, kind: Any, where: str) -> None:
    known = [f.name for f in fields(kind)]
    if not isinstance(table, dict):
        raise UsageError(f"{where}: {table!r} is no table of {', '.join(known)}")
    for name in table:
        if name not in known:
            raise UsageError(f"{where}: there is no {name!r}; known: {', '.join(known)}")
