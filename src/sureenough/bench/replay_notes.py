"""What a reader of a table of replays should know."""

from __future__ import annotations

from sureenough.bench.cells import Replayed
from sureenough.bench.published_grader import math_verify_version
from sureenough.bench.score import Row
from sureenough.bench.settings import ReplaySettings
from sureenough.spec import resolve


def replay_notes(replayed: Replayed, settings: ReplaySettings) -> list[str]:
    """What a reader of the table should know."""
    opened, recorded = replayed.opened, replayed.recorded
    cells = [result.cell for result in replayed.results]
    notes = list(opened.notes)
    budget = max(cell.options.paths or 0 for cell in cells)
    short = sum(n < budget for n in recorded)
    if short:
        most = max(recorded)
        notes.append(f"{short} questions have fewer than {budget} recorded paths ({most} at most); all were used")
    warmup = max(resolve(cell.strategy).warmup for cell in cells)
    few = sum(n < warmup for n in recorded)
    if few:
        notes.append(f"{few} questions have fewer paths than a warm-up of {warmup}; all their paths warmed up")
    row = replayed.results[0].row
    if 0 < row.graded < row.questions:
        notes.append(
            f"questions without a gold answer: {row.questions - row.graded} of {row.questions}; accuracy is that of "
            "the others, all other columns are means over all"
        )
    if settings.equal == "string":
        notes.append("answers were one candidate only if their strings are equal")
    if settings.grader != "own":
        notes.append(f"answers to mathematics were graded by math-verify {math_verify_version()}; votes do not use it")
    if opened.judge.lost:
        notes.append(f"{opened.judge.lost} answers were not graded by math-verify within its limits and count as wrong")
    if opened.damaged:
        notes.append(f"{opened.damaged} damaged rows were left out")
    return notes + [note for result in replayed.results if (note := _learned_note(result.row)) is not None]


def _learned_note(row: Row) -> str | None:
    if row.learned is None:
        return None
    if not any(one["questions"] for one in row.learned.values()):
        return f"{row.strategy} learned nothing of confidence: no question had five votes that do not all agree"
    parts = [
        f"{name.replace('_', ' ')} {one['r']:+.2f} from {one['questions']:.{0 if one['questions'] >= 1 else 1}f} "
        f"question{'' if one['questions'] == 1 else 's'}, weight {one['beta']:.2f}"
        for name, one in row.learned.items()
    ]
    return f"{row.strategy} learned how far confidence goes with agreement: {'; '.join(parts)}"
