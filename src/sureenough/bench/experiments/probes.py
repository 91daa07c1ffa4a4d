"""What probes know and what they save: how early paths know their answer, and tokens at equal accuracy."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean
from typing import Final, NamedTuple

from sureenough.bench.experiments import columns as c
from sureenough.bench.experiments.columns import Column
from sureenough.bench.experiments.experiment import Experiment, Findings, Inputs, over_pools
from sureenough.bench.experiments.replayed import cell_options, replay_findings, replay_inputs
from sureenough.bench.experiments.table_settings import settings_note
from sureenough.bench.judging import JudgedAnswers
from sureenough.bench.pipeline import OpenPool, PoolResults
from sureenough.bench.replay_units import ReplayCell
from sureenough.bench.result import Axis, Cell, Figure, ResultColumn, Series, Table, grouped
from sureenough.bench.strategy_lists import fitting_pool
from sureenough.core.probing import ProbeRule
from sureenough.data import PROBES_POOL
from sureenough.errors import TraceError
from sureenough.pools import Question, RecordedPath

METHODS: Final = ("sc", "ac", "ddc", "sure")
AGREE: Final = (2, 3)
VOTING: Final = ("ac", "ddc", "sure")
"""Strategies whose stop rule counts the votes of probes; `sc` has none."""
SHORTEST: Final = 64
"""Paths are grouped by length: below this, and then by powers of two."""
DEPTHS: Final = tuple(n / 10 for n in range(1, 11))

PROBES: Final = Column(ResultColumn("probe tokens", "tokens", "per question"), lambda line: line.row.buckets["probe"])
TABLE: Final = c.table(
    "probes",
    "Strategies with and without probes",
    [*c.NAMES, c.QUESTIONS, c.ACCURACY, *c.PAIRED, c.TOKENS, PROBES, c.SAVING, c.STEPS],
    ["tokens include those of probes; every strategy comes with the accuracy and tokens of its plain form above it"],
)


class ProbedPath(NamedTuple):
    """What the probes of one path show."""

    tokens: int
    known: int | None  # the first token from which every probe gives the path's own answer; None: it has none
    ended: int  # tokens up to where its probes end it, or to its own end
    probe_tokens: int  # of the probes until then
    differs: bool  # its probes end it with another answer than its own


@dataclass(frozen=True, slots=True)
class ReadProbes:
    """The pipeline's task: one question's paths under a rule."""

    rule: ProbeRule

    def __call__(self, question: Question, judged: JudgedAnswers) -> list[ProbedPath]:
        return [self._probed(path, judged.classes) for path in question.paths if path.tokens]

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


def probe_distance(opened: OpenPool) -> int:
    """Tokens between two recorded probes."""
    for question in opened.pool:
        places = [probe.at for path in question.paths for probe in path.probes or ()]
        if places:
            return min(places)
    raise TraceError(
        f"{opened.pool.name} has no probes; record a pool with them: `sureenough record … --probes every=64`"
    )


def _cells(inputs: Inputs, opened: OpenPool) -> list[ReplayCell]:
    every = probe_distance(opened)
    options = cell_options(inputs, opened.window)
    names = []
    for name in METHODS:
        probed = [f"{name}+probe:every={every},agree={agree}" for agree in AGREE]
        names += [name, *probed, *([f"{probed[-1]},votes=1"] if name in VOTING else [])]
    chosen = inputs.strategies or fitting_pool(names, opened, options.paths)
    return [ReplayCell(name, name, options) for name in chosen]


def _measure(inputs: Inputs) -> Findings:
    replayed = replay_inputs(inputs, _cells)
    pools = over_pools(inputs, lambda opened: ReadProbes(ProbeRule(probe_distance(opened), AGREE[-1])))
    tables = [TABLE([one.results for one in replayed]), _by_length(pools)]
    return replay_findings(inputs, replayed, tables, [_known(pools)])


def _by_length(pools: list[PoolResults[list[ProbedPath]]]) -> Table:
    """What probes cost and save on paths of each length."""
    rows: list[list[Cell]] = []
    for pool in pools:
        every = [path for question in pool.values for path in question]
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
    note = f"known: from there on every probe gives the path's own answer; paths end after {AGREE[-1]} that agree"
    settings = settings_note(budget="all recorded paths")
    return Table("by-length", "Single paths with probes, by length", columns, rows, [note, settings])


def _known(pools: list[PoolResults[list[ProbedPath]]]) -> Figure:
    """How many paths know their answer after each part of their length."""
    series = []
    for pool in pools:
        paths = [path for question in pool.values for path in question if path.known is not None]
        known = [(path.known or 0) / path.tokens for path in paths]
        shares = [fmean(share <= depth for share in known) if known else None for depth in DEPTHS]
        series.append(Series(pool.opened.source.dataset, list(DEPTHS), shares))
    axes = Axis("part of the path", percent=True), Axis("paths that know their answer", percent=True)
    return Figure("known", "How early a path knows its answer", "line", *axes, series)


EXPERIMENT: Final = Experiment(
    "probes",
    "probes: how early paths know their answer, and tokens saved at equal accuracy",
    "Probes: how early the answer is known, and what they save",
    _measure,
    reads=("strategies",),
    pool=PROBES_POOL,
)
