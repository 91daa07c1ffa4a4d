"""Votes of paths that are not counted yet: of running paths by their latest probe, of ended ones that wait, in full."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sureenough.core.events import Fate
from sureenough.core.learning import LearnerState
from sureenough.core.path import PathState
from sureenough.core.probe_agreement import DEPTHS, LEAST_RELIABILITY, ProbeRecord, depth_of
from sureenough.core.votes import Poll

LEARNING_QUESTIONS: Final = 8
"""In the first of so many questions probes do not vote. A run that ends by its probes does not show where its paths
would have arrived, so what is known of probes could not be corrected without such questions."""


class ProbeVotes:
    """Keeps a poll's uncounted votes up to date. A probe counts as far as probes at its depth have proved right."""

    def __init__(self, poll: Poll, every: int) -> None:
        self._poll, self._every = poll, every
        self._state = LearnerState()
        self._voted = False

    def learned(self, state: LearnerState) -> None:
        """Use what earlier questions have shown."""
        self._state = state

    def probed(self, path: PathState) -> None:
        """A running path was probed; if it gave no answer, or took it back, it does not vote."""
        reply, share = path.replies[-1], self._share(self._every * len(path.replies))
        if reply.answer is None or reply.hedged or share < LEAST_RELIABILITY:
            self._poll.forget(path.number)
        else:
            self._poll.expect(path.number, reply.answer, share)
            self._voted = True

    def _share(self, tokens: int) -> float:
        typical = self._state.probes.typical_length
        if typical is None or self._state.questions % LEARNING_QUESTIONS == 0:
            return 0.0
        return self._state.probes.reliability(depth_of(tokens, typical))

    def ended(self, path: PathState) -> None:
        """A path has ended: its own answer replaces that of its probe until it is counted."""
        if path.fate is Fate.KEPT and path.answer is not None:
            self._poll.expect(path.number, path.answer, 1.0)
        else:
            self._poll.forget(path.number)

    def record(self, paths: Sequence[PathState]) -> ProbeRecord | None:
        """What this question shows of probes; None if they voted, or if no path ended by itself."""
        own = [path for path in paths if path.own_end and path.tokens]
        if self._voted or not own:
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
