"""The pool with probes that ships: it is what its card says, and `bench probes` replays it if no other is named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sureenough.bench.experiments import EXPERIMENTS
from sureenough.core.options import RunOptions
from sureenough.core.probing import LONGEST_PROBE
from sureenough.data import BUILTIN_POOL, PROBES_POOL
from sureenough.drivers import replay
from sureenough.drivers.fast_replay import fast_replay
from sureenough.drivers.lockstep import lockstep
from sureenough.pools import Pool, Question
from sureenough.problems import generate
from sureenough.spec import parse
from tests.bench.typed import bench

ROOT = Path(__file__).parents[2]
EVERY = 16
LEVELS = (3, 4, 5)


@pytest.fixture(scope="module")
def questions() -> list[Question]:
    return list(Pool(PROBES_POOL))


def test_the_pool_is_what_its_card_says(questions: list[Question]) -> None:
    info = Pool(PROBES_POOL).info
    made = {problem.id: problem for level in LEVELS for problem in generate(level, 77, 100)}
    for question in questions:
        problem = made[question.id]
        assert (question.gold, question.level) == (problem.gold, problem.level)
        assert all(path.text is None for path in question.paths)
    assert (len(questions), {len(question.paths) for question in questions}) == (200, {16})
    assert (info.dataset, info.model, info.window) == ("arith", "built-in", 32)
    assert PROBES_POOL.stat().st_size < 3e6


def test_every_path_was_probed_up_to_its_end(questions: list[Question]) -> None:
    paths = [path for question in questions for path in question.paths]
    for path in paths:
        probes = path.probes
        assert probes is not None
        assert [probe.at for probe in probes] == list(range(EVERY, path.tokens, EVERY))
        assert all(0 < probe.reply.tokens <= LONGEST_PROBE for probe in probes)
    assert any(probe.reply.answer is not None for path in paths for probe in path.probes or ())


def test_bench_probes_replays_it_by_default(tmp_path: Path) -> None:
    done = bench("probes", "--json", "--paths", "4", "--repeats", "1", "-o", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    (used,) = result["provenance"]["pools"]
    assert (used["file"], used["sha256"]) == (PROBES_POOL.name, Pool(PROBES_POOL).digest())
    tables = {table["name"]: table for table in result["tables"]}
    compared = by_title(tables["probes"])
    assert compared["strategy"][:3] == ["sc", f"sc+probe:every={EVERY},agree=2", f"sc+probe:every={EVERY},agree=3"]
    assert compared["questions"] == [200] * len(compared["strategy"])
    for name, tokens, probes in zip(*(compared[t] for t in ("strategy", "tokens", "probe tokens")), strict=True):
        assert tokens > probes >= 0
        assert (probes > 0) == ("+probe" in name)
    lengths = by_title(tables["by-length"])
    assert sum(lengths["paths"]) == Pool(PROBES_POOL).rows
    assert all(0 < known <= 1 for known in lengths["answer known after"] if known is not None)
    page = (ROOT / "docs/probes.md").read_text()
    assert all(printed(row) in page for row in tables["by-difficulty"]["rows"])


def printed(row: list[Any]) -> str:
    """A row by difficulty, as the page has it."""
    _, name, paths, early, median, *quartiles = row
    tokens = ", ".join(f"{token:,.0f}" for token in quartiles[:3])
    parts = ", ".join(f"{part:.0%}" for part in quartiles[3:])
    return f"| {name} | {paths:,} | {early:.1%} | {median:.1%} | {tokens} | {parts} |"


def by_title(table: dict[str, Any]) -> dict[str, list[Any]]:
    titles = [column["title"] for column in table["columns"]]
    return dict(zip(titles, map(list, zip(*table["rows"], strict=True)), strict=True))


def test_other_experiments_keep_the_built_in_pool() -> None:
    assert {name for name, one in EXPERIMENTS.items() if one.pool != BUILTIN_POOL} == {"probes"}


@pytest.mark.parametrize(
    "spec", ["sure+probe:every=16", "ddc+probe:every=32,agree=2,warmup=8", "sc+probe:every=16,agree=2"]
)
def test_both_drivers_decide_alike_on_it(questions: list[Question], spec: str) -> None:
    options = RunOptions(paths=16, window=32, parallel=4)
    for question in questions[:12]:
        fast, exact = (replay(question.paths, parse(spec), options, driver=one) for one in (fast_replay, lockstep))
        assert fast == exact, question.id
