"""sureenough beside other packages, on the same recorded paths from the same server.

    python benchmarks/peers/compare_peers.py problems problems.csv
    sureenough record problems.csv -o pool.parquet --paths 32 --parallel 32
    python benchmarks/peers/compare_peers.py environments      # the commands that install the others, each on its own
    python benchmarks/peers/compare_peers.py run pool.parquet --environments DIR [--only NAME ...] [--json FILE]
    python benchmarks/peers/compare_peers.py rules pool.parquet --environments DIR [--json FILE]

`run` prints accuracy, tokens and time of each system; `rules` compares decisions where two packages have the same rule.
A system whose environment is missing is left out, with a line that says so. docs/comparison.md has the results.
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import rules
from peer_programs import HERE, PEERS, Recording

import sureenough as se
from sureenough.answers import grade

OURS = ("sc", "ac", "ac, one at a time", "esc", "deepconf-low", "ddc", "sure", "sure, one at a time")
PATHS = 32
LEVELS, EACH, SEED = (4, 5), 20, 22


@dataclass
class Row:
    """One system on all questions; tokens are those that the server generated, per question."""

    system: str
    accuracy: float
    tokens: float
    claimed: float | None  # what the system itself reports
    paths: float
    cut: float  # paths whose connection the client closed
    prompt: float
    seconds: float
    seeds: float  # different seeds per question
    notes: list[str] = field(default_factory=list)


@contextmanager
def recorded_server(pool: Path, rate: float) -> Iterator[str]:
    """The server of recorded paths, in a process of its own."""
    command = [sys.executable, str(HERE / "recorded_server.py"), str(pool), "--rate", str(rate)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


def our_lines(system: str, url: str, recording: Recording) -> list[Any]:
    """The same lines from one of our strategies, over the same HTTP, all paths at once or one at a time."""
    strategy, _, sequential = system.partition(",")
    engine = se.OpenAI(f"{url}/v1", model="recorded")
    start, lines = time.perf_counter(), []
    paths, window, parallel = recording.paths, recording.window, 1 if sequential else recording.paths
    for row in recording.questions:
        out = se.ask(row["question"], engine, strategy, paths=paths, parallel=parallel, window=window)
        lines.append({"id": row["id"], "answer": out.answer, "claimed": out.tokens.total})
    return [*lines, {"seconds": time.perf_counter() - start}]


def row_of(system: str, lines: list[Any], rows: list[dict[str, Any]], tallies: dict[str, Any]) -> Row:
    """A row of the table from a system's lines and the server's counts."""
    gold = {row["id"]: row["gold"] for row in rows}
    answered = {line["id"]: line for line in lines if "id" in line}
    count = len(rows)
    right = sum(
        line["right"] if "right" in line else grade(gold[name], line["answer"]) for name, line in answered.items()
    )
    own = [line["claimed"] for line in answered.values() if line.get("claimed") is not None]
    claimed = next((line["claimed_total"] for line in lines if "claimed_total" in line), sum(own) if own else None)
    offline = sum(line.get("tokens", 0) for line in answered.values())  # without a server
    counted = ("tokens", "requests", "cut", "prompt")
    tally = {name: sum(one[name] for one in tallies.values()) / count for name in counted}
    return Row(
        system,
        accuracy=right / count,
        tokens=offline / count or tally["tokens"],
        claimed=None if claimed is None else claimed / count,
        paths=tally["requests"] or len(rows[0]["paths"]),
        cut=tally["cut"] or sum(line.get("cut", 0) for line in answered.values()) / count,
        prompt=tally["prompt"],
        seconds=next(line["seconds"] for line in lines if "seconds" in line) / count,
        seeds=sum(len(one["seeds"]) for one in tallies.values()) / count,
        notes=sorted({line["note"] for line in answered.values() if line.get("note")}),
    )


def run(pool: Path, environments: Path, only: Sequence[str], rate: float, paths: int) -> Iterator[Row]:
    """Every system in turn, on a server that starts to count anew for each."""
    recording = Recording.read(pool, paths)
    with recorded_server(pool, rate) as url:
        for system in [*OURS, *(system for peer in PEERS.values() for system in peer.systems)]:
            if only and not any(name in system for name in only):
                continue
            name = next((name for name, peer in PEERS.items() if system in peer.systems), None)
            if name is not None and not (environments / name).is_dir():
                print(f"{system}: left out, {environments / name} does not exist", file=sys.stderr)
                continue
            urlopen(Request(f"{url}/reset", method="POST")).close()
            try:
                lines = recording.lines(environments, name, system, url) if name else our_lines(system, url, recording)
            except (RuntimeError, subprocess.TimeoutExpired) as error:
                print(f"{system}: left out, {error}", file=sys.stderr)
                continue
            with urlopen(f"{url}/tally") as response:
                row = row_of(system, lines, recording.questions, json.load(response))
            print(line_of(row), file=sys.stderr, flush=True)
            yield row


COLUMNS = ("accuracy", "tokens", "own count", "paths", "closed", "prompt", "seconds", "seeds")
HEADER = f"{'system':26}" + "".join(f"{name:>10}" for name in COLUMNS)


def line_of(row: Row) -> str:
    """A row for people; everything but accuracy is per question."""
    cells = [
        f"{row.accuracy:.1%}",
        f"{row.tokens:,.0f}",
        "-" if row.claimed is None else f"{row.claimed:,.0f}",
        f"{row.paths:.1f}",
        f"{row.cut:.1f}",
        f"{row.prompt:,.0f}",
        f"{row.seconds:.2f}",
        f"{row.seeds:.1f}",
    ]
    return f"{row.system:26}{''.join(f'{cell:>10}' for cell in cells)}  {'; '.join(row.notes)}".rstrip()


def write_problems(file: Path) -> None:
    """The generated problems of the comparison, with their answers."""
    sys.path.append(str(Path(__file__).parents[2] / "training"))
    from arithmetic import generate

    with file.open("w", newline="") as out:
        writer = csv.writer(out)
        writer.writerow(["id", "question", "gold", "level"])
        for level in LEVELS:
            writer.writerows([one.id, one.question, one.gold, one.level] for one in generate(level, SEED, EACH))


def print_environments() -> None:
    """The commands that make an environment for each peer."""
    for name, peer in PEERS.items():
        print(
            f"python3 -m venv DIR/{name} && DIR/{name}/bin/pip install {peer.install}" if peer.systems else peer.install
        )


def main() -> None:
    """Choose a part by its first argument."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=["problems", "environments", "run", "rules"])
    parser.add_argument("file", type=Path, nargs="?", help="the file of problems to write, or the pool to read")
    parser.add_argument("--environments", type=Path, default=Path("environments"))
    parser.add_argument("--only", nargs="*", default=[], help="parts of systems' names")
    parser.add_argument("--rate", type=float, default=400.0, help="tokens per second of each path on the server")
    parser.add_argument("--paths", type=int, default=PATHS)
    parser.add_argument("--json", type=Path, help="write the rows to this file")
    arguments = parser.parse_args()
    if arguments.part == "environments":
        return print_environments()
    if arguments.file is None:
        parser.error(f"{arguments.part} needs a file")
    if arguments.part == "problems":
        return write_problems(arguments.file)
    if arguments.part == "rules":
        rows: list[Any] = list(rules.compared(arguments.file, arguments.environments, arguments.paths))
        print(*(rules.line_of(row) for row in rows), sep="\n")
    else:
        rows = list(run(arguments.file, arguments.environments, arguments.only, arguments.rate, arguments.paths))
        print(HEADER, *(line_of(row) for row in rows), sep="\n")
    if arguments.json:
        arguments.json.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")
    return None


if __name__ == "__main__":
    main()
