"""`sureenough record` with a small file of questions, and what it wrote."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np

from sureenough.pools import Pool
from tests.processes import CLEAN, Running, start, sureenough


def write_sums(file: Path, number: int) -> Path:
    """A file of questions q0, q1 and so on."""
    rows = [{"id": f"q{n}", "question": f"{n} + 1?", "gold": str(n + 1), "level": 1} for n in range(number)]
    file.write_text("\n".join(map(json.dumps, rows)) + "\n")
    return file


def words(url: str, dataset: Path, output: Path, *more: str) -> list[str]:
    fixed = ["record", str(dataset), "-o", str(output), "--url", url, "--model", "tiny", "--paths", "8"]
    return [*fixed, *more]


def record(url: str, dataset: Path, output: Path, *more: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return sureenough(*words(url, dataset, output, *more), env=CLEAN | environment)


def start_record(url: str, dataset: Path, output: Path, *more: str) -> Running:
    return start(*words(url, dataset, output, *more), env=CLEAN)


def rows(pool: Path) -> list[tuple[str, int | None, str | None, list[float], int | None]]:
    return [(q.id, p.number, p.answer, list(np.asarray(p.conf)), p.seed) for q in Pool(pool) for p in q.paths]


def lines(file: Path) -> int:
    """How many lines a journal has; 0 before it exists."""
    return file.read_bytes().count(b"\n") if file.exists() else 0
