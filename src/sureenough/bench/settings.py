"""How a pass over recorded paths is made, beside the run's own options: `compare`, `replay` and `bench` share it."""

from __future__ import annotations

import pickle
from dataclasses import Field, dataclass, fields
from typing import Any, Final

from sureenough.answers import resolve_kind
from sureenough.bench.judging import Equal, Grader, check_equal, check_grader
from sureenough.core.options import RunOptions, check_count
from sureenough.errors import UsageError

MOST_REPEATS: Final = 10_000
DEFAULT_REPEATS: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaySettings:
    """Everything but `jobs` can change numbers."""

    repeats: int = DEFAULT_REPEATS  # orders of every question's paths
    equal: Equal = "meaning"
    grader: Grader = "own"
    kind: Any = None  # of answer, of questions that have none of their own; what the pool says by default
    skip_damaged: bool = False
    jobs: int = 1  # processes; more than one needs `if __name__ == "__main__":` in a script

    def __post_init__(self) -> None:
        check_count("repeats", self.repeats)
        check_count("jobs", self.jobs)
        check_equal(self.equal)
        check_grader(self.grader)
        if self.kind is not None:
            resolve_kind(self.kind)
        if self.jobs > 1 and not isinstance(self.kind, str | None):
            _refuse_local(self.kind)
        if self.repeats > MOST_REPEATS:
            raise UsageError(f"repeats is {self.repeats}; at most {MOST_REPEATS:,} are allowed, and ten are plenty")

    @classmethod
    def fields(cls) -> dict[str, Field[Any]]:
        return {setting.name: setting for setting in fields(cls)}


def _refuse_local(judge: Any) -> None:
    try:
        pickle.dumps(judge)
    except Exception:
        raise UsageError(
            "this judge cannot be sent to other processes: use jobs=1, or name it as kind='module:attribute'"
        ) from None


def changed_settings(*parts: RunOptions | ReplaySettings) -> dict[str, Any]:
    """The values that differ from their defaults, by name; `jobs` changes no number and is left out."""
    values = [(field, getattr(part, name)) for part in parts for name, field in part.fields().items()]
    changed = {field.name: value for field, value in values if value != field.default and field.name != "jobs"}
    if "kind" in changed and not isinstance(changed["kind"], str):
        changed["kind"] = repr(changed["kind"])
    return changed
