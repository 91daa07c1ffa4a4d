"""`sureenough bench` as a user types it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from tests.engines.misbehaving import Manner
from tests.processes import CLEAN, Running, start, sureenough

MANNER = Manner(tokens=12, by_prompt=True)
SMALL = ("--paths", "8", "--window", "8", "-s", "sc ddc:warmup=4", "--jobs", "1")
Done = subprocess.CompletedProcess[str]


def bench(*words: str | Path, **environment: str) -> Done:
    return sureenough("bench", *words, env=CLEAN | environment)


def start_bench(*words: str | Path, **environment: str) -> Running:
    return start("bench", *words, env=CLEAN | environment)


def questions(file: Path, number: int) -> Path:
    """A file of sums; the server answers 7 or 8 to anything."""
    rows = [{"id": f"q{n}", "question": f"{n} + 1?", "gold": "78"[n % 2], "level": 1} for n in range(number)]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


def result(folder: Path, name: str = "main") -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "results" / f"{name}.json").read_text())
    return found


def live_runs(folder: Path) -> list[dict[str, Any]]:
    lines = (folder / "live" / "runs.jsonl").read_text().splitlines()[1:]
    return [json.loads(line) for line in lines]


def on(url: str, dataset: str | Path, folder: Path) -> tuple[str | Path, ...]:
    """A small run on one server."""
    return ("main", "--dataset", dataset, "--url", url, "--model", "org/tiny", "-o", folder, *SMALL)
