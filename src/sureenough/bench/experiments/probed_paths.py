"""Single paths with probes: how early they know their answer, by length and difficulty, and what probes cost them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final, NamedTuple

import numpy as np

from sureenough.bench.experiments.paths import by_difficulty, thirds
from sureenough.bench.experiments.table_settings import settings_note
from sureenough.bench.judging import JudgedAnswers
from sureenough.bench.pipeline import PoolResults
from sureenough.bench.result import Axis, Cell, Figure, ResultColumn, Series, Table, grouped
from sureenough.core.confidence.instability import Floats
from sureenough.core.probing import ProbeRule
from sureenough.pools import Question, RecordedPath

SHORTEST: Final = 64
"""Paths are grouped by length: below this, and then by powers of two."""
DEPTHS: Final = tuple(n / 10 for n in range(1, 11))
QUARTILES: Final = (0.25, 0.5, 0.75)
CURVE: Final = tuple(n / 20 for n in range(1, 21))
READING: Final = (
    "known: from there on every probe gives the path's own answer; if the last probe does not, the path counts "
    "with its end; paths without an answer are left out"
)
SETTINGS: Final = settings_note(budget="all recorded paths")


class ProbedPath(NamedTuple):
    """What the probes of one path show."""

    tokens: int
    known: int | None  # the first token from which every probe gives the path's own answer; None: it has none
    ended: int  # tokens up to where its probes end it, or to its own end
    probe_tokens: int  # of the probes until then
    differs: bool  # its probes end it with another answer than its own


class ProbedQuestion(NamedTuple):
    """The paths of one question."""

    level: int | None
    share: float  # of right paths; NaN without a gold answer
    paths: list[ProbedPath]


ProbedPools = Sequence[PoolResults[ProbedQuestion]]


@dataclass(frozen=True, slots=True)
class ReadProbes:
    """The pipeline's task: one question's paths under a rule."""

    rule: ProbeRule

    def __call__(self, question: Question, judged: JudgedAnswers) -> ProbedQuestion:
        paths, right = [path for path in question.paths if path.tokens], judged.right
        share = float("nan")
        if right is not None and paths:
            share = fmean(right.get(path.answer or "", False) for path in paths)
        return ProbedQuestion(question.level, share, [self._probed(path, judged.classes) for path in paths])

    def _probed(self, path: RecordedPath, classes: dict[str, int]) -> ProbedPath:
        every, replies = self.rule.every, path.replies(self.rule.every)
        own = classes.get(path.answer or "")
        known = path.tokens
        for n in range(len(replies), 0, -1):
            if classes.get(replies[n - 1].answer or "") != own:
                break
            known = n * every
        end = path.ended_by(self.rule)
        asked = self.rule.settled_after(replies) or len(replies)
        cost = sum(reply.tokens for reply in replies[:asked])
        differs = classes.get(end.answer or "") != own
        return ProbedPath(path.tokens, None if own is None else known, end.tokens, cost, differs)


# -- by length


def length_table(pools: ProbedPools, agree: int) -> Table:
    """What probes cost and save on paths of each length."""
    rows: list[list[Cell]] = []
    for pool in pools:
        every = [path for question in pool.values for path in question.paths]
        by_length = grouped(every, lambda path: SHORTEST << max(0, (path.tokens // SHORTEST).bit_length()))
        for above, paths in sorted(by_length.items()):
            known = [path.known / path.tokens for path in paths if path.known is not None]
            own, spent = sum(path.tokens for path in paths), sum(path.ended + path.probe_tokens for path in paths)
            rows.append(
                [pool.opened.source.dataset, f"below {above}", len(paths), fmean(known) if known else None,
                 fmean(path.ended < path.tokens for path in paths), fmean(path.differs for path in paths),
                 own / len(paths), spent / len(paths), 1 - spent / own]
            )  # fmt: skip
    columns = [
        ResultColumn("dataset"),
        ResultColumn("tokens of the path"),
        ResultColumn("paths", "count"),
        ResultColumn("answer known after", "percent", "% of the path"),
        ResultColumn("ended by probes", "percent", "%"),
        ResultColumn("with another answer", "percent", "%"),
        ResultColumn("own tokens", "tokens", "per path"),
        ResultColumn("with probes", "tokens", "per path"),
        ResultColumn("saved", "percent", "%"),
    ]
    note = f"known: from there on every probe gives the path's own answer; paths end after {agree} that agree"
    return Table("by-length", "Single paths with probes, by length", columns, rows, [note, SETTINGS])


def known_figure(pools: ProbedPools) -> Figure:
    """How many paths know their answer after each part of their length."""
    series = []
    for pool in pools:
        known, tokens = _known(pool.values)
        shares = [float(np.mean(known / tokens <= depth)) if known.size else None for depth in DEPTHS]
        series.append(Series(pool.opened.source.dataset, list(DEPTHS), shares))
    axes = Axis("part of the path", percent=True), Axis("paths that know their answer", percent=True)
    return Figure("known", "How early a path knows its answer", "line", *axes, series)


# -- by difficulty


def difficulty_table(pools: ProbedPools) -> Table:
    """The first token from which probes agree with the path's end: quartiles over paths, by difficulty."""
    rows: list[list[Cell]] = []
    notes = []
    for pool in pools:
        dataset = pool.opened.source.dataset
        how, groups = by_difficulty(pool.values, thirds)
        notes.append(f"{dataset}: difficulty is {how}")
        rows += [[dataset, name, *_quartiles(questions)] for name, questions in {"all": pool.values, **groups}.items()]
    columns = [
        ResultColumn("dataset"),
        ResultColumn("difficulty"),
        ResultColumn("paths", "count"),
        ResultColumn("known before the end", "percent", "% of the paths"),
        ResultColumn("half of these after", "percent", "% of the path"),
        *(ResultColumn(f"{share:.0%} know it from token", "tokens") for share in QUARTILES),
        *(ResultColumn(f"{share:.0%} know it after", "percent", "% of the path") for share in QUARTILES),
    ]
    title = "How early a path knows its answer, by difficulty"
    return Table("by-difficulty", title, columns, rows, [READING, *notes, SETTINGS])


def _quartiles(questions: Sequence[ProbedQuestion]) -> list[Cell]:
    known, tokens = _known(questions)
    early = known < tokens
    median = _at((known / tokens)[early], [0.5])
    share = float(np.mean(early)) if early.size else None
    return [known.size, share, *median, *_at(known, QUARTILES), *_at(known / tokens, QUARTILES)]


def difficulty_figures(pools: ProbedPools) -> list[Figure]:
    """How many paths know their answer after so many tokens, a curve for each difficulty."""
    axes = Axis("tokens of the path"), Axis("paths that know their answer", percent=True)
    figures = []
    for place, pool in enumerate(pools, 1):
        groups = {name: _known(questions)[0] for name, questions in by_difficulty(pool.values, thirds)[1].items()}
        curves = [Series(name, [*_at(known, CURVE)], list(CURVE)) for name, known in groups.items() if known.size]
        title = f"{pool.opened.source.label}: how early a path knows its answer, by difficulty"
        figures += [Figure(f"known-{place}", title, "line", *axes, curves)] if curves else []
    return figures


def _known(questions: Sequence[ProbedQuestion]) -> tuple[Floats, Floats]:
    """Of all paths with an answer: the token from which it is known, and the path's length."""
    pairs = [(path.known, path.tokens) for one in questions for path in one.paths if path.known is not None]
    known, tokens = np.array(pairs, dtype=float).reshape(-1, 2).T
    return known, tokens


def _at(values: Floats, shares: Sequence[float]) -> list[float] | list[None]:
    """The smallest values that so many of them do not exceed."""
    if not values.size:
        return [None] * len(shares)
    return [float(value) for value in np.quantile(values, shares, method="inverted_cdf")]
