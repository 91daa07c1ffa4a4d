"""Whether two packages that have the same rule decide the same on the same recorded paths."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from peer_programs import Recording

import sureenough as se
from sureenough.core.stop_rules import never
from sureenough.strategies import STRATEGIES


@dataclass
class RuleRow:
    """One rule on a pool, and where decisions differ."""

    rule: str
    compared: int
    equal: int
    differences: list[str] = field(default_factory=list)


def line_of(row: RuleRow) -> str:
    """A row for people, with the first differences."""
    shown = "".join(f"\n    {difference}" for difference in row.differences[:5])
    more = f"\n    and {len(row.differences) - 5} more" if len(row.differences) > 5 else ""
    return f"{row.rule}: {row.equal} of {row.compared} equal{shown}{more}"


def compared(pool: Path, environments: Path, paths: int) -> Iterator[RuleRow]:
    """Every rule that a peer has too and whose environment exists."""
    recording = Recording.read(pool, paths)
    there = [name for name in ("adaptive", "its_hub", "deepconf") if (environments / name).is_dir()]
    for name, system in (("adaptive", "AdaptiveConsistency rules"), ("its_hub", "its_hub rules")):
        if name in there:
            yield stops(recording, recording.lines(environments, name, system), name)
    for name in ("deepconf-low", "deepconf-high"):
        for system in (name.replace("-", " "), name.replace("-", " ") + ", unrounded"):
            if "deepconf" in there:
                yield cuts(recording, recording.lines(environments, "deepconf", system), name, system)


def stops(recording: Recording, lines: list[Any], name: str) -> RuleRow:
    """After how many paths `ac` and a peer's Beta test stop."""
    theirs = {line["id"]: line["stopped"] or recording.paths for line in lines if "id" in line}
    row = RuleRow(f"ac and {name}: paths until the Beta test stops", len(theirs), 0)
    for question in se.Pool(recording.pool):
        ours = se.replay(question.paths[: recording.paths], "ac", parallel=1).started
        compare(row, question.id, ours, theirs[question.id])
    return row


def cuts(recording: Recording, lines: list[Any], name: str, system: str) -> RuleRow:
    """Paths cut, tokens and the vote of DeepConf's online form, without a test that stops sampling."""
    strategy = replace(STRATEGIES[name], stop=never)
    row = RuleRow(f"{name} and {system}: paths cut, tokens, answer", len(recording.questions), 0)
    theirs = {line["id"]: (line["cut"], line["tokens"], line["answer"]) for line in lines if "id" in line}
    for question in se.Pool(recording.pool):
        paths = question.paths[: recording.paths]
        out = se.replay(paths, strategy, window=recording.window, parallel=1)
        compare(row, question.id, (out.pruned, out.tokens.total, out.answer), theirs[question.id])
    return row


def compare(row: RuleRow, question: str, ours: Any, theirs: Any) -> None:
    """Count a question as equal, or keep what differs."""
    if ours == theirs:
        row.equal += 1
    else:
        row.differences.append(f"{question}: ours {ours}, theirs {theirs}")
