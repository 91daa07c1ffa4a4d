"""`sureenough record` with a small file of questions, and what it wrote."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass, replace
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


@dataclass(frozen=True)
class Recording:
    """A command that records these questions from this server, and the pool that it writes."""

    url: str
    dataset: Path
    pool: Path

    @property
    def journal(self) -> Path:
        return self.pool.with_name(f"{self.pool.name}.journal")

    def to(self, name: str) -> Recording:
        """The same with another output beside it."""
        return replace(self, pool=self.pool.with_name(name))

    def ends(self, code: int, *more: str, **environment: str) -> str:
        """What it writes to standard error when it ends with this exit code."""
        done = record(self.url, self.dataset, self.pool, *more, **environment)
        assert done.returncode == code, done
        assert "Traceback" not in done.stderr
        return done.stderr

    def run(self, *more: str, **environment: str) -> str:
        """What it prints; it must succeed."""
        done = record(self.url, self.dataset, self.pool, *more, **environment)
        assert done.returncode == 0, done
        return done.stdout

    def start(self, *more: str) -> Running:
        return start_record(self.url, self.dataset, self.pool, *more)

    def rows(self) -> list[tuple[str, int | None, str | None, list[float], int | None]]:
        return rows(self.pool)
