"""docs/bench.md: its plans are plans, its table is the dict; tests/test_docs_commands.py reads its commands."""

from __future__ import annotations

import json
import re
from pathlib import Path

from sureenough.bench.paper import EXPERIMENTS
from sureenough.bench.plan import read_plan
from sureenough.datasets import DATASETS
from tests.bench.typed import bench

TEXT = (Path(__file__).parents[2] / "docs" / "bench.md").read_text()


def test_its_plan_is_one(tmp_path: Path) -> None:
    (text,) = re.findall(r"```toml\n(.*?)```", TEXT, re.DOTALL)
    file = tmp_path / "plan.toml"
    file.write_text(text)
    plan = read_plan(file, {})
    assert [len(plan.datasets), len(plan.engines), len(plan.specs() or ())] == [3, 2, 5]


def test_its_datasets_are_those_that_there_are() -> None:
    said = re.findall(r"^\| `([\w-]+)` \| ([\d,]+) \| (?:`([\w/.-]+)`)?", TEXT, re.MULTILINE)
    assert [(name, int(count.replace(",", "")), hub or None) for name, count, hub in said] == [
        (name, one.count, one.hub and one.hub.id) for name, one in DATASETS.items()
    ]


def test_without_an_experiment_it_lists_them() -> None:
    text, listed = bench().stdout, json.loads(bench("--json").stdout)
    assert list(listed["experiments"]) == list(EXPERIMENTS)
    assert {name: one["questions"] for name, one in listed["datasets"].items()} == {
        name: dataset.count or None for name, dataset in DATASETS.items()
    }
    assert all(name in text for name in [*listed["experiments"], *listed["datasets"]])
