"""Votes of paths that are not counted yet: of running paths by their latest probe, of ended ones that wait, in full."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import islice
from typing import Final

from sureenough.core.events import Fate
from sureenough.core.learning import LearnerState
from sureenough.core.options import Count
from sureenough.core.outcome import Outcome
from sureenough.core.path import PathState
from sureenough.core.probe_agreement import DEPTHS, LEAST_RELIABILITY, ProbeRecord, depth_of
from sureenough.core.votes import Poll, Vote

FIRST_QUESTIONS: Final = 16
LEARNING_QUESTIONS: Final = 8
"""In the first 16 questions, and then in every eighth, probes decide nothing, and only these questions teach. Paths
that end by their probes do not show where they would have arrived; those that do not are the ones that waver."""


class ProbeVotes:
    """Keeps a poll's uncounted votes up to date. A probe counts as far as probes at its depth have proved right.

    If votes are counted in order of start, a running path without a vote holds back those of all later ones: otherwise
    short paths would be considered first.
    """

    def __init__(self, poll: Poll, every: int, paths: list[PathState], order: Count) -> None:
        self._poll, self._every, self._paths, self._ordered = poll, every, paths, order == "start"
        self._state = LearnerState()
        self._latest: dict[int, Vote] = {}  # of running paths
        self._first = 0  # the first path that may not be counted yet

    def learned(self, own: LearnerState, others: Iterable[LearnerState]) -> None:
        """Use what earlier questions have shown: the most that is known under any window, after the questions of all.

        Probes do not depend on the window, and a run that they end before any path ends has another window than the
        questions that taught them.
        """
        states = [own, *others]
        most = max(states, key=lambda state: state.probes.questions)
        total = sum(state.questions for state in states[1:])
        self._state = replace(most, questions=max(own.questions, total))

    @property
    def only_learns(self) -> bool:
        """Whether probes decide nothing in this question."""
        questions = self._state.questions
        return questions < FIRST_QUESTIONS or questions % LEARNING_QUESTIONS == 0

    def probed(self, path: PathState) -> None:
        """A running path was probed; if it gave no answer, or took it back, it does not vote."""
        reply, share = path.replies[-1], self._share(self._every * len(path.replies))
        self._latest.pop(path.number, None)
        if reply.answer is not None and not reply.hedged and share >= LEAST_RELIABILITY:
            self._latest[path.number] = reply.answer, share

    def refresh(self) -> None:
        """The votes of paths as they are now."""
        while self._first < len(self._paths) and self._paths[self._first].counted:
            self._first += 1
        votes: dict[int, Vote] = {}
        for path in islice(self._paths, self._first, None):
            if path.counted:
                continue
            if path.fate is None and path.number not in self._latest and self._ordered:
                break
            vote = self._vote(path)
            if vote is not None:
                votes[path.number] = vote
        self._poll.expect(votes)

    def _vote(self, path: PathState) -> Vote | None:
        """An ended path that waits for its turn votes in full."""
        if path.fate is None:
            return self._latest.get(path.number)
        return (path.answer, 1.0) if path.fate is Fate.KEPT and path.answer is not None else None

    def _share(self, tokens: int) -> float:
        typical = self._state.probes.typical_length
        if typical is None or self.only_learns:
            return 0.0
        return self._state.probes.reliability(depth_of(tokens, typical))

    def complete(self, out: Outcome) -> Outcome:
        """The outcome with what probes did, and with what was known of them."""
        known = self._state
        learned = replace(out.learned or known, probes=known.probes, questions=known.questions)
        votes = sum(self._poll.uncounted.values())
        return replace(out, probes=self.record(), uncounted_votes=votes, learned=learned)

    def record(self) -> ProbeRecord | None:
        """What this question shows of probes; None if they could decide something, or if no path ended by itself."""
        own = [path for path in self._paths if path.own_end and path.tokens]
        if not self.only_learns or not own:
            return None
        length = sum(path.tokens for path in own) / len(own)
        typical = self._state.probes.typical_length or length
        right, answered = [0] * DEPTHS, [0] * DEPTHS
        for path in own:
            for n, reply in enumerate(path.replies, 1):
                if reply.answer is not None and not reply.hedged:
                    depth = depth_of(n * self._every, typical)
                    answered[depth] += 1
                    right[depth] += self._poll.same(reply.answer, path.answer)
        return ProbeRecord(length, tuple(right), tuple(answered))
