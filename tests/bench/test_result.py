"""Results are data: strict, whole, and the same after a round trip."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sureenough.bench.result import Axis, ExperimentResult, Figure, Series, read
from sureenough.bench.tables import Column, Measure, Table
from sureenough.errors import UsageError
from tests.bench.making import hostile_result, provenance


def test_a_round_trip_changes_nothing(tmp_path: Path) -> None:
    result = hostile_result()
    result.save(tmp_path / "results" / "main.json")
    assert read(tmp_path / "results" / "main.json") == result
    assert [file.name for file in (tmp_path / "results").iterdir()] == ["main.json"]


def test_what_is_no_number_is_null() -> None:
    nan, inf = float("nan"), float("inf")
    table = Table("t", "t", [Column("a", "number")], [[nan], [Measure(1.0, -inf, nan)]])
    figure = Figure("f", "f", "line", Axis("x"), Axis("y"), [Series("s", [1.0], [nan])])
    told = json.loads(ExperimentResult("x", "x", [table], [figure], [], provenance()).to_json())
    assert told["tables"][0]["rows"] == [[None], [{"value": 1.0, "low": None, "high": None}]]
    assert told["figures"][0]["series"][0]["y"] == [None]


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda told: told.update(surprise=1), "surprise"),
        (lambda told: told["tables"][0]["columns"][0].update(kind="roman"), "roman"),
        (lambda told: told["tables"][0]["rows"].append(["too short"]), "does not fit"),
        (lambda told: told.pop("provenance"), "provenance"),
    ],
)
def test_anything_else_is_refused(tmp_path: Path, spoil: object, says: str) -> None:
    told = json.loads(hostile_result().to_json())
    spoil(told)  # type: ignore[operator]
    (tmp_path / "bad.json").write_text(json.dumps(told))
    with pytest.raises(UsageError, match=says):
        read(tmp_path / "bad.json")


def test_half_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "half.json").write_bytes(hostile_result().to_json()[:200])
    with pytest.raises(UsageError, match="run the experiment again"):
        read(tmp_path / "half.json")
