"""Counts a session's votes: in order of start, with which window, gate and weights, and whether that settles the run.

A path's turn comes when all that started before it had theirs, it has ended, and the class of its answer is known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import islice, takewhile

from sureenough.core.events import Action, Answer, Classify, Fate, Regrouped, Stop, Summary
from sureenough.core.first_paths import FirstPaths
from sureenough.core.learning import LearnerState
from sureenough.core.options import RunOptions
from sureenough.core.outcome import Outcome, build_outcome
from sureenough.core.path import PathState
from sureenough.core.pruning import OPEN_GATE
from sureenough.core.strategy import Strategy
from sureenough.core.votes import Poll


class VoteCount:
    """The votes of the paths that a session has started. Strategy and options change when the window is chosen."""

    def __init__(
        self,
        strategy: Strategy,
        options: RunOptions,
        longest_window: int,
        learned: Mapping[int, LearnerState] | None,
        changed: Callable[[int], None],
        *,
        gives_up: bool,
    ) -> None:
        """`changed` is called with the number of a path that was counted; `gives_up` as in the session."""
        self.strategy, self.options = strategy, options
        self.paths = paths = list[PathState]()
        self._longest_window, self._learned, self._changed = longest_window, learned, changed
        budget = options.paths or 1
        self.window, self.window_paths = options.window, 0  # paths whose lengths chose the window
        self._reads = strategy.reads_confidence
        self.gate = OPEN_GATE
        self.poll = Poll(strategy.weigh, budget)
        self._turn = 0  # paths that had their turn
        self._answers: dict[Answer, None] = {}  # of these, and of the path that waits for the class of its own
        self.classifying = False  # a class was requested, and the path that needs it waits
        self.first = FirstPaths(paths, strategy.warmup, budget)
        self.warmed_up = 0  # warm-up paths that ran to their end
        self.sampling = False  # the warm-up is over, or there is none: votes may settle the run
        self.settled = False
        self._gives_up, self.silent = gives_up, False  # the first paths have been counted, and gave no answer
        self._use_learned()

    def take_confidence(self, path: PathState, summary: Summary | None) -> None:
        """What the votes of an ended path weigh, once the window is known."""
        if self._reads:
            path.take_summary(summary)
            if self.window is not None:
                path.summarise(self.window)

    def end_path(self, path: PathState) -> None:
        """A path has ended, and is counted when its turn comes."""
        self.warmed_up += path.warmup and path.fate is Fate.KEPT

    def regroup(self, event: Regrouped) -> None:
        """Classes of answers are known."""
        self.poll.regroup(event.classes)
        self.classifying = False
        if self.sampling:
            self.settled = self.strategy.stop(self.poll)

    def advance(self) -> Sequence[Action]:
        """Count what can be counted; the request for a class, if one is missing."""
        return self._count_votes() if self.sampling else self._count_in_warmup()

    def close(self) -> None:
        """Count the paths whose votes waited for a window or for the end of the warm-up; nothing is calibrated."""
        uncounted = not self.sampling or (self.window is None and self._reads)
        if self.window is None:
            self._choose_window()
        if not self.sampling:
            self.poll.warmup = [path.lowest for path in self._passed() if path.fate is Fate.KEPT]
        if uncounted:
            self.settled = False  # by a rule that settles without votes, if it was: these count all the same
            self._count_passed()

    def outcome(self, stop: Stop, steps: int) -> Outcome:
        """The result of the run; `steps` is the longest chain of tokens generated one after another."""
        gate = self.gate if self.sampling and self.strategy.warmup and self.strategy.prunes else None
        out = build_outcome(self.strategy, self.options, self.paths, self.poll, stop, steps, gate)
        return replace(out, window_paths=self.window_paths) if self.window_paths else out

    def _count_votes(self) -> Sequence[Action]:
        """Count paths in their order, one at a time, until the stop rule is satisfied or a class is missing."""
        if self.window is None and self._reads:
            request = self._pass_ended()
            if request is not None or not self.first.have_ended():
                return request or ()
            self._choose_window()
            self._count_passed()
        while not self.settled and not self.silent and (path := self._next()) is not None:
            request = self._pass_turn(path)
            if request is not None:
                return request
            self._count(path)
        return ()

    def _count_in_warmup(self) -> Sequence[Action]:
        """Nothing is counted before all warm-up paths have ended and their classes are known; then all are."""
        request = self._pass_ended()
        if request is None and self.warmed_up == self.strategy.warmup:
            self._calibrate()
        return request or ()

    # -- turns

    def _next(self) -> PathState | None:
        """The path whose turn it is, if it has ended."""
        path = self.paths[self._turn] if self._turn < len(self.paths) else None
        return None if path is None or path.fate is None else path

    def _passed(self) -> Sequence[PathState]:
        """The paths that had their turn."""
        return self.paths[: self._turn]

    def _pass_turn(self, path: PathState) -> Sequence[Action] | None:
        """The path has had its turn if the class of its answer is known: None; else the request for it, made once.

        Only answers of paths that had their turn are in the request, so that no width changes how answers are grouped.
        """
        if path.answer is not None and path.fate is Fate.KEPT:
            self._answers[path.answer] = None
            if not self.poll.knows(path.answer):
                repeated, self.classifying = self.classifying, True
                return () if repeated else (Classify(tuple(self._answers)),)
        self._turn += 1
        return None

    def _pass_ended(self) -> Sequence[Action] | None:
        """Give all ended paths their turn; the request for a class, if one is missing."""
        while (path := self._next()) is not None:
            request = self._pass_turn(path)
            if request is not None:
                return request
        return None

    def awaiting_class(self) -> int:
        """Ended paths that wait for the class of an answer only, not for a path that runs."""
        if not self.classifying:
            return 0
        return sum(1 for _ in takewhile(lambda path: path.fate is not None, islice(self.paths, self._turn, None)))

    def _count(self, path: PathState) -> None:
        """A vote may settle the run; a path without one only under some rules."""
        ballot = path.count(self.gate)
        self._changed(path.number)
        self.poll.add(path.number, ballot)
        if ballot is not None or self.strategy.stop.counts_paths:
            self.settled = self.sampling and self.strategy.stop(self.poll)
        self._test_silence()

    def _test_silence(self) -> None:
        if self._gives_up and self.sampling:
            self.silent = self.first.gave_no_answer()

    def _count_passed(self) -> None:
        """Count the paths that had their turn while nothing was counted."""
        for path in self._passed():
            if not self.settled and not self.silent:
                self._count(path)

    def _choose_window(self) -> None:
        self.window, self.window_paths = self.first.choose_window(self._passed(), self._longest_window)
        self.options = replace(self.options, window=self.window)
        self._use_learned()
        if self._reads:
            for path in self.paths:
                if path.fate is Fate.KEPT:
                    path.summarise(self.window)

    def _use_learned(self) -> None:
        """Once the window is known, and before any vote is counted."""
        if self._learned is not None and (self.window is not None or not self._reads):
            window = self.window if self.window is not None and self._reads else 0
            self.strategy = self.strategy.with_state(self._learned.get(window, LearnerState()))
            self.poll.weigh_by(self.strategy.weigh)

    def _calibrate(self) -> None:
        """The warm-up has ended: window, thresholds, weights, votes, and the first stop test."""
        if self.window is None:
            self._choose_window()
        kept = [path for path in self.paths if path.fate is Fate.KEPT]
        if self.strategy.prunes:
            self.gate = self.strategy.calibrate([path.calibration_windows() for path in kept])
        self.poll.warmup = [path.lowest for path in kept]
        for path in self.paths:
            self._count(path)
        self.sampling = True
        self.settled = self.strategy.stop(self.poll)
        self._test_silence()
