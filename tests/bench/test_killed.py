"""Killed with -9 anywhere, the same command goes on: the same result, every token, and nothing paid twice.

CI kills 20 times (SUREENOUGH_FULL=1), the light suite twice.
"""

from __future__ import annotations

import random
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.bench.typed import bench, live_runs, on, questions, result, start_bench
from tests.engines.misbehaving import Manner, serving
from tests.in_thread import in_thread, until
from tests.requirements import FULL

KILLS = 20 if FULL else 2
QUESTIONS, PATHS = 4, 8  # as many paths as in `on`
MANNER = Manner(tokens=16, delay=0.0005, by_prompt=True)
SECONDS = ("init", "final", "total", "tokens")
"""Of the live table: time is never the same twice, and what comes in one read after a decision is overrun."""


def kept(folder: Path) -> int:
    """Lines that are safe: paths in the journal, or in the pool that it became, and live runs."""
    total = 0
    journals = list(folder.glob("pools/*.journal"))
    for file in (*journals, *folder.glob("live/*.jsonl")):
        with suppress(FileNotFoundError):  # a journal is removed when it has become a pool
            total += max(0, file.read_bytes().count(b"\n") - 1)
    if not journals and list(folder.glob("pools/*.parquet")):
        total += QUESTIONS * PATHS
    return total


def kill_when(folder: Path, command: tuple[str | Path, ...], enough: int, extra: float) -> bool:
    """Start it, and kill it once so much is kept and a moment has passed; whether it was still alive then."""
    with start_bench(*command) as running:
        until(lambda: running.poll() is not None or kept(folder) >= enough)
        time.sleep(extra)
        alive = running.poll() is None
        running.kill()
    return alive


def without_time(found: dict[str, Any]) -> list[dict[str, Any]]:
    """All tables and figures; of the live ones, what time does not move."""
    tables = []
    for table in found["tables"]:
        moved = {i for i, column in enumerate(table["columns"]) if table["live"] and column["title"] in SECONDS}
        tables.append(table | {"rows": [[c for i, c in enumerate(row) if i not in moved] for row in table["rows"]]})
    return [*tables, *(figure for figure in found["figures"] if not figure["live"])]


def decided(run: dict[str, Any]) -> dict[str, Any]:
    """A live run without its seconds and its overrun."""
    tokens = {name: n for name, n in run["outcome"]["tokens"].items() if name not in ("overrun", "total")}
    return (
        {name: run[name] for name in ("dataset", "model", "strategy", "question", "repeat", "right")}
        | {
            name: run["outcome"][name]
            for name in ("answer", "reason", "votes", "started", "pruned", "tiers", "counted")
        }
        | tokens
    )


@pytest.mark.parametrize(("parallel", "live"), [("4", ()), ("1", ("--live",))], ids=["recording", "live"])
def test_killed_at_random_moments(parallel: str, live: tuple[str, ...], tmp_path: Path) -> None:
    draw = random.Random(f"{KILLS} {parallel}")
    dataset = questions(tmp_path / "sums.jsonl", QUESTIONS)
    whole, folder = tmp_path / "whole", tmp_path / "killed"
    lines = QUESTIONS * PATHS + (3 * QUESTIONS if live else 0)
    with in_thread(serving(MANNER)) as server:
        began = time.monotonic()
        more = ("-s", "ac", "--parallel", parallel, *live)
        assert bench(*on(server.url, dataset, whole), *more).returncode == 0
        asked, took = len(server.requests), time.monotonic() - began
        command = (*on(server.url, dataset, folder), *more)
        alive = 0
        for number, enough in enumerate(sorted(draw.randint(1, lines) for _ in range(KILLS))):
            # By what is kept, which falls into the sampling; or by the clock, which falls anywhere.
            moment = (enough, draw.random() * 0.03) if number % 2 else (0, draw.random() * 0.8 * took)
            alive += kill_when(folder, command, *moment)
        assert 2 * alive >= KILLS
        done = bench(*command)
        assert done.returncode == 0, done.stderr
        again = len(server.requests) - asked
    assert without_time(result(folder)) == without_time(result(whole))
    # What was under way when a kill fell is asked again: a few paths, or one question's; nothing else is.
    assert asked <= again <= asked + KILLS * PATHS
    if live:
        runs = [sorted(map(decided, live_runs(one)), key=str) for one in (folder, whole)]
        assert runs[0] == runs[1]
        assert len(runs[0]) == 3 * QUESTIONS


def test_a_finished_run_is_not_run_again(tmp_path: Path) -> None:
    dataset = questions(tmp_path / "sums.jsonl", 2)
    with in_thread(serving(MANNER)) as server:
        command = on(server.url, dataset, tmp_path / "run")
        first = bench(*command, "--json")
        asked = len(server.requests)
        second = bench(*command, "--json")
        assert (first.returncode, second.returncode) == (0, 0), second.stderr
        assert second.stdout == first.stdout
        assert len(server.requests) == asked == 2 * PATHS
