"""One budget of tokens for many questions: the next path goes where a token is expected to gain most.

Every question has a session of its own that runs one path at a time. Its next path waits until this scheduler grants
it a turn. Like a session, it does no I/O: drivers for live engines and for recorded paths carry out its decisions.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import replace

from sureenough.core.expected_gain import ExpectedGain
from sureenough.core.outcome import Outcome
from sureenough.core.session import Session
from sureenough.core.strategy import Strategy
from sureenough.errors import UsageError


def check_allocatable(strategy: Strategy) -> None:
    """Refuse a strategy that cannot tell what a further path is worth, or that samples several at once."""
    if not isinstance(strategy.stop, ExpectedGain) or strategy.warmup:
        raise UsageError(
            f"{strategy.name} does not estimate what a further path would gain, so it cannot share a budget; "
            "use sure, such as sure:delta=0"
        )
    if strategy.search is not None:
        raise UsageError(f"{strategy.name} searches for its paths, which a shared budget does not plan for; use sure")
    if strategy.probe is not None:
        raise UsageError(f"{strategy.name} probes its paths, which a shared budget does not plan for; leave +probe out")


class Allocation:
    """Grants turns: a path starts if what is left of the budget is at least what it is expected to take."""

    def __init__(self, sessions: Sequence[Session], total: int) -> None:
        for session in sessions:
            check_allocatable(session.strategy)
        self.total = total
        self._sessions = sessions
        self._waiting: list[tuple[float, int]] = []  # heap of (minus expected gain per token, question)
        self._running: dict[int, float] = {}  # question -> tokens that its running path is expected to take
        self._started, self._ended = [0] * len(sessions), [0] * len(sessions)  # paths
        self._generated = [0] * len(sessions)  # tokens
        self._all_ended = self._all_generated = 0

    @property
    def left(self) -> int:
        """Tokens of the budget that are not generated yet; 0 if there are none."""
        return max(0, self.total - self._all_generated)

    @property
    def running(self) -> int:
        return len(self._running)

    def is_running(self, question: int) -> bool:
        """Whether a path of the question runs."""
        return question in self._running

    def wait(self, question: int) -> None:
        """A question's next path may start from now on."""
        self._count(question)
        heapq.heappush(self._waiting, (-self._gain_per_token(question), question))

    def grant(self) -> int | None:
        """The question whose next path starts now; None if none waits, or if the best one does not fit any more."""
        if not self._waiting or not self.left:
            return None
        question = self._waiting[0][1]
        expected = self._expected_tokens(question)
        if expected > self.left - sum(self._running.values()):
            return None
        heapq.heappop(self._waiting)
        self._running[question] = expected
        self._started[question] += 1
        return question

    def grew(self, question: int) -> None:
        """The session of a question has received tokens of its running path."""
        new = self._count(question)
        self._running[question] = max(0.0, self._running[question] - new)

    def path_ended(self, question: int) -> None:
        """A question's running path is over."""
        self._count(question)
        del self._running[question]
        self._ended[question] += 1
        self._all_ended += 1

    def _count(self, question: int) -> int:
        """Tokens that the session has received since it was looked at last."""
        new = self._sessions[question].generated - self._generated[question]
        self._generated[question] += new
        self._all_generated += new
        return new

    def corrected(self, outcomes: Sequence[Outcome]) -> list[Outcome]:
        """The sessions' outcomes; a path that was never granted a turn was not started."""
        return [replace(out, started=started) for out, started in zip(outcomes, self._started, strict=True)]

    def _gain_per_token(self, question: int) -> float:
        """The best over one, two, four … further paths: a single vote may be unable to change the leader."""
        session = self._sessions[question]
        left = (session.options.paths or 1) - self._ended[question]
        sizes = {min(left, 1 << power) for power in range(left.bit_length() + 1)}
        per_path = max(session.gain_of_paths(paths) / paths for paths in sizes)
        return per_path / (self._expected_tokens(question) or 1.0)

    def _expected_tokens(self, question: int) -> float:
        """The mean over the question's paths and one path of mean length; 0 before the first path has ended."""
        typical = self._all_generated / self._all_ended if self._all_ended else 0.0
        return (self._generated[question] + typical) / (self._ended[question] + 1)
