"""The one pass over a pool: every question under every strategy, in every order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from zlib import crc32

import numpy as np

from sureenough.bench.guard import ConfidenceGuard
from sureenough.bench.judging import JudgedAnswers, PoolJudge
from sureenough.bench.score import ScoredRun, StrategyRuns
from sureenough.core.confidence.array import Windows
from sureenough.core.options import RunOptions
from sureenough.core.pruning import Calibrate, Gate
from sureenough.core.strategy import Strategy
from sureenough.drivers import replay as run_recorded
from sureenough.pools import Question, RecordedPath
from sureenough.spec import render


@dataclass(frozen=True, slots=True)
class ReplaySettings:
    """What every run of a comparison has in common."""

    options: RunOptions  # no budget: whatever a question has
    repeats: int = 1
    guard: bool = False


class CalibrationCache:
    """Calibrations of one question: ablations of a strategy, on the same order, share theirs."""

    def __init__(self) -> None:
        self.known: list[Calibrate] = []
        self.gates: dict[tuple[int, tuple[int, ...]], Gate] = {}

    def around(self, strategy: Strategy) -> Strategy:
        """The strategy with a memory."""
        if not strategy.prunes:
            return strategy
        calibrate = strategy.calibrate
        shared = self._number(calibrate)

        def recall(paths: Sequence[Windows]) -> Gate:
            key = shared, tuple(map(id, paths))
            if key not in self.gates:
                self.gates[key] = calibrate(paths)
            return self.gates[key]

        return replace(strategy, calibrate=recall)

    def _number(self, calibrate: Calibrate) -> int:
        """Equal calibrations have one number; they need not be hashable for that."""
        for number, known in enumerate(self.known):
            if known == calibrate:
                return number
        self.known.append(calibrate)
        return len(self.known) - 1


class ReplayPass:
    """Collects a sheet a strategy, question by question."""

    def __init__(self, plan: list[Strategy], settings: ReplaySettings) -> None:
        self.plan, self.settings = plan, settings
        self.sheets = [StrategyRuns(render(strategy)) for strategy in plan]
        self.guards = [[ConfidenceGuard(strategy) for _ in range(settings.repeats)] for strategy in plan]
        self.recorded = 0  # most paths of any question
        self.short = 0  # questions with fewer paths than the budget
        self.shrunk = 0  # questions with fewer paths than a warm-up

    def question(self, question: Question, judged: JudgedAnswers, remembered: CalibrationCache) -> None:
        """All strategies and repeats of one question; works on the same one may share what is remembered."""
        n = len(question.paths)
        self.recorded = max(self.recorded, n)
        self.short += self.settings.options.paths is not None and n < self.settings.options.paths
        self.shrunk += any(n < strategy.warmup for strategy in self.plan)
        runs: list[list[ScoredRun]] = [[] for _ in self.plan]
        for repeat in range(self.settings.repeats):
            paths = self._ordered(question, repeat)
            for done, guards in zip(runs, self.guards, strict=True):
                strategy = guards[repeat].current() if self.settings.guard else guards[repeat].strategy
                run = self._run(paths, remembered.around(strategy), judged)
                guards[repeat].learn(run.outcome.agreement)
                done.append(run)
        for sheet, done in zip(self.sheets, runs, strict=True):
            sheet.add(done)

    def _ordered(self, question: Question, repeat: int) -> list[RecordedPath]:
        """The paths that this repeat may use, in its order."""
        rng = np.random.default_rng((self.settings.options.seed, repeat, crc32(question.id.encode())))
        order = rng.permutation(len(question.paths))[: self.settings.options.paths]
        return [question.paths[i] for i in order]

    def _run(self, paths: list[RecordedPath], strategy: Strategy, judged: JudgedAnswers) -> ScoredRun:
        """One strategy on one order of one question."""
        settings = self.settings
        if len(paths) < strategy.warmup:
            strategy = replace(strategy, warmup=len(paths))
        options = replace(settings.options, paths=len(paths))
        out = run_recorded(paths, strategy, options, classes=judged.classes)
        right = judged.right
        correct = None if right is None else float(out.answer is not None and right[out.answer])
        plain = sum(path.tokens for path in paths)
        return ScoredRun(correct, out.tokens.total, min(plain, settings.options.max_tokens or plain), out)

    def notes(self, groups: PoolJudge) -> list[str]:
        """What a reader of the table should know, by whom the answers were judged too."""
        notes = []
        if self.short:
            notes.append(
                f"{self.short} questions have fewer than {self.settings.options.paths} recorded paths; "
                "they used what there is"
            )
        if self.shrunk:
            notes.append(f"{self.shrunk} questions have fewer paths than a warm-up; all their paths warmed up")
        if groups.equal == "string":
            notes.append("answers were one candidate only where their strings are equal")
        if groups.unsettled:
            notes.append(
                f"{groups.unsettled} pairs of answers were not settled in {groups.symbolic_seconds:g} s "
                "a question, or the worker was not ready, and count as different; --symbolic-seconds allows more"
            )
        if self.settings.guard:
            notes += [self._guarded(sheet, guards) for sheet, guards in zip(self.sheets, self.guards, strict=True)
                      if any(guard.wary for guard in guards)]  # fmt: skip
        return notes

    def _guarded(self, sheet: StrategyRuns, guards: list[ConfidenceGuard]) -> str:
        wary = sum(guard.wary for guard in guards)
        belief = sum(guard.belief for guard in guards) / len(guards)
        return (
            f"{sheet.strategy}: confidence misled (correlation with agreement {belief:+.2f}); "
            f"{wary} of {sheet.runs} runs went without it, at a quarter of delta"
        )
