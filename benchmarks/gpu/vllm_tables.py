"""The results of `watched_vllm.py all` as tables in Markdown."""

from __future__ import annotations

import json
import statistics
from collections import defaultdict
from pathlib import Path
from typing import Any

Row = dict[str, Any]
PAPER_PATHS = 512
"""Paths per question in the paper's tables."""


def print_tables(folder: Path) -> None:
    """Rates, decisions, and one table of questions per number of paths."""
    rows = [row for file in sorted(folder.glob("*.jsonl")) for row in read_rows(file)]
    print("| | model | paths x tokens | tokens/s | of offline | client | API server |\n|---|---|---|---|---|---|---|")
    rates = [row for row in rows if row["phase"] in ("offline", "inprocess", "http")]
    offline = {size(row): row["rate"] for row in rates if row["phase"] == "offline" and not row["watched"]}
    for row in rates:
        print(rate_line(row, offline.get(size(row))))
    for row in rows:
        if row["phase"] == "decisions":
            print("\n" + json.dumps(row))
    asked: dict[int, list[Row]] = defaultdict(list)
    for row in rows:
        if row["phase"] == "question" and "seconds" in row:
            asked[row["paths"]].append(row)
    for paths, lines in sorted(asked.items()):
        print_questions(paths, lines)


def read_rows(file: Path) -> list[Row]:
    """The results in a phase's output, which vLLM's own messages and a line that was cut off may be among."""
    rows = []
    for line in file.read_text(errors="replace").splitlines():
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if isinstance(row, dict) and "phase" in row:
            rows.append(row)
    return rows


def size(row: Row) -> tuple[Any, ...]:
    """What was measured: rates of the same model, size and seeding can be compared."""
    return row["model"], row["paths"], row["tokens"], row["seeded"]


def rate_line(row: Row, offline: float | None) -> str:
    """The median of a rate, what it is made of, its share of `generate`'s, and us of CPU per token."""
    seeds = ", a seed per path" if row["seeded"] else ""
    cpu = [f"{row[name]:.1f}" if name in row else "" for name in ("client", "server")]
    rates = ", ".join(f"{rate:,}" for rate in row["rates"])
    share = f"{row['rate'] / offline:.2f}" if offline else ""
    shape = f"{row['paths']} x {row['tokens']:,}"
    cells = [f"{row['phase']}{seeds}", row["model"], shape, f"{row['rate']:,.0f} [{rates}]", share, *cpu]
    return "| " + " | ".join(cells) + " |"


def print_questions(paths: int, rows: list[Row]) -> None:
    """Strategies by width. Each is compared with `sc` over the questions that both answered."""
    cells: dict[tuple[str, str], dict[int, Row]] = defaultdict(dict)
    for row in rows:
        cells[row["strategy"], row["width"]][row["number"]] = row
    print(f"\n{paths} paths\n")
    heads = ["strategy", "width", "questions", "right", "tokens", "of sc", "seconds: mean", "median", "largest"]
    print(f"| {' | '.join(heads)} | ended by the deadline |\n{'|---' * (len(heads) + 1)}|")
    whole = cells.get(("sc", "all at once"), {})
    for (strategy, width), by_number in cells.items():
        lines = list(by_number.values())
        seconds = [line["seconds"] for line in lines]
        common = by_number.keys() & whole.keys()
        share = sum(by_number[n]["tokens"] for n in common) / sum(whole[n]["tokens"] for n in common) if common else 0
        late = sum(line.get("reason") == "deadline" for line in lines)
        print(
            f"| {strategy} | {width} | {len(lines)} | {sum(line['right'] for line in lines)} | "
            f"{statistics.mean(line['tokens'] for line in lines):,.0f} | {f'{share:.2f}' if common else ''} | "
            f"{statistics.mean(seconds):.2f} | {statistics.median(seconds):.2f} | {max(seconds):.2f} | {late or ''} |"
        )
    if paths == PAPER_PATHS:
        print_paper(cells)


def print_paper(cells: dict[tuple[str, str], dict[int, Row]]) -> None:
    """What `ddc` takes of the seconds of `deepconf-low`, here and in the paper's table 5: other models and hardware."""
    from sureenough.bench import paper

    for width in ("all at once", "hurry 0.25"):
        ours, theirs = cells.get(("ddc", width), {}), cells.get(("deepconf-low", width), {})
        if common := ours.keys() & theirs.keys():
            share = sum(ours[n]["seconds"] for n in common) / sum(theirs[n]["seconds"] for n in common)
            print(f"\nddc / deepconf-low, {width}: {share:.2f} of the seconds (questions: {len(common)})", end="")
    times = {
        (p.model, p.dataset, p.setting): p.value for p in paper.printed() if (p.table, p.measure) == (5, "seconds")
    }
    printed = [
        (f"{model} {dataset}", value / times[model, dataset, "deepconf-low"])
        for (model, dataset, strategy), value in times.items()
        if strategy == "ddc"
    ]
    print("\nthe paper's table 5: " + ", ".join(f"{name} {share:.2f}" for name, share in printed))
