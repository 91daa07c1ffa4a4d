"""The results of `watched_vllm.py all` as tables in Markdown."""

from __future__ import annotations

import json
import statistics
from collections import defaultdict
from pathlib import Path
from typing import Any

Row = dict[str, Any]


def print_tables(folder: Path) -> None:
    """Rates, decisions, and one table of questions per number of paths."""
    rows = [row for file in sorted(folder.glob("*.jsonl")) for row in read_rows(file)]
    print("| | model | paths x tokens | tokens/s | client | API server |\n|---|---|---|---|---|---|")
    for row in rows:
        if row["phase"] in ("offline", "inprocess", "http"):
            print(rate_line(row))
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


def rate_line(row: Row) -> str:
    """The median of a rate, what it is made of, and us of CPU per token."""
    seeds = ", a seed per path" if row["seeded"] else ""
    cpu = [f"{row[name]:.1f}" if name in row else "" for name in ("client", "server")]
    rates = ", ".join(f"{rate:,}" for rate in row["rates"])
    size = f"{row['paths']} x {row['tokens']:,}"
    cells = [f"{row['phase']}{seeds}", row["model"], size, f"{row['rate']:,.0f} [{rates}]", *cpu]
    return "| " + " | ".join(cells) + " |"


def print_questions(paths: int, rows: list[Row]) -> None:
    """Strategies by width, over the questions that all of them answered."""
    cells: dict[tuple[str, str], dict[int, Row]] = defaultdict(dict)
    for row in rows:
        cells[row["strategy"], row["width"]][row["number"]] = row
    common = sorted(set.intersection(*(set(by_number) for by_number in cells.values())))
    print(f"\n{paths} paths, {len(common)} questions\n")
    if not common:
        return
    heads = ["strategy", "width", "right", "tokens", "of sc", "seconds: mean", "median", "largest"]
    print(f"| {' | '.join(heads)} |\n{'|---' * len(heads)}|")
    whole = cells.get(("sc", "all at once"), {})
    for (strategy, width), by_number in cells.items():
        lines = [by_number[number] for number in common]
        tokens, seconds = statistics.mean(line["tokens"] for line in lines), [line["seconds"] for line in lines]
        share = tokens / statistics.mean(whole[number]["tokens"] for number in common) if whole else float("nan")
        print(
            f"| {strategy} | {width} | {sum(line['right'] for line in lines)} | {tokens:,.0f} | {share:.2f} | "
            f"{statistics.mean(seconds):.2f} | {statistics.median(seconds):.2f} | {max(seconds):.2f} |"
        )
