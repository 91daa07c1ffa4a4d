"""Early stopping for Inspect: the remaining epochs of a sample are skipped once the vote on its answer is settled.

    Task(..., epochs=Epochs(16, vote("sure", epochs=16)), early_stopping=EarlyStopping("sure"))

Votes count in the order of the epochs, so the voted answer does not depend on how many run at once. How many run does:
an epoch that is under way when the vote is settled runs to its end. docs/own-samples.md has a complete task.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from logging import getLogger
from typing import Any, Final
from weakref import WeakValueDictionary

from sureenough.answers import Judge, for_question, resolve_kind
from sureenough.api import Kind
from sureenough.core.events import Action, Classify, Ended, Fate, Regrouped
from sureenough.core.options import RunOptions
from sureenough.core.outcome import Outcome
from sureenough.core.session import Session
from sureenough.core.strategy import Strategy
from sureenough.core.weights import BySignals
from sureenough.drivers.judging import classes_or_own, extract_or_abstain
from sureenough.errors import UsageError
from sureenough.importers import scored_answer
from sureenough.spec import render, resolve
from sureenough.strategies import DEFAULT_STRATEGY

try:
    from inspect_ai.hooks import Hooks, SampleEnd, hooks
    from inspect_ai.scorer import Score, score_reducer
    from inspect_ai.util import EarlyStop
except ImportError as error:
    raise ImportError("sureenough.inspect needs inspect_ai: pip install 'sureenough[inspect]'") from error

NOT_LOGGED: Final = "the log keeps no samples, and without them Inspect does not stop early: leave log_samples on"


class EarlyStopping:
    """Settles the votes of one task at a time; the summary of the log has each sample's answer."""

    def __init__(self, strategy: str | Strategy = DEFAULT_STRATEGY, *, kind: Kind = "math") -> None:
        """Without a strategy that reads confidence: epochs have none.

        Args:
            strategy: any that counts votes, such as "ac" or "certified"; "sure" counts them here.
            kind: says which answers are the same, and reads the completion if no scorer names an answer.
        """
        self._strategy, self._judge = counting(strategy), for_question(resolve_kind(kind))
        self._votes: dict[str, _Vote] = {}
        self._skipped = 0
        self._notes: list[str] = []
        self._running = False

    async def start_task(self, task: Any, samples: Sequence[Any], epochs: int) -> str:
        if self._running:
            raise UsageError("an EarlyStopping object serves one task at a time: make one per task")
        self._votes = {str(sample.id): _Vote(self._strategy, self._judge, epochs) for sample in samples}
        self._running, self._skipped = True, 0
        self._notes = [NOT_LOGGED] if task.config.log_samples is False else []
        for note in self._notes:
            getLogger(__name__).warning(note)
        _RUNNING[task.eval_id] = self
        return f"sureenough {render(self._strategy)}"

    async def schedule_sample(self, id: str | int, epoch: int) -> EarlyStop | None:
        vote = self._votes.get(str(id))
        if vote is None or not vote.session.done:
            return None
        self._skipped += 1
        out = vote.session.outcome()
        return EarlyStop(id=id, epoch=epoch, reason=f"the vote was settled by {out.counted} epochs", metadata=out.votes)

    async def complete_sample(self, id: str | int, epoch: int, scores: dict[str, Any]) -> None:
        """Also of an epoch that an earlier attempt of the task has run, of which no hook hears."""
        self._end(id, epoch, Fate.KEPT, scored_answer({name: one.score for name, one in scores.items()}, self._judge))

    async def complete_task(self) -> dict[str, Any]:
        self._running = False
        outcomes = {id: vote.outcome() for id, vote in self._votes.items()}
        return {
            "strategy": render(self._strategy),
            "epochs_run": sum(vote.run for vote in self._votes.values()),
            "epochs_skipped": self._skipped,
            "epochs_failed": sum(out.failed for out in outcomes.values()),
            "answers": {id: out.answer for id, out in outcomes.items()},
            "epochs_counted": {id: out.counted for id, out in outcomes.items()},
            "notes": self._notes,
        }

    def receive(self, sample: Any) -> None:
        """A sample of the log: it ended, perhaps with an error, which `complete_sample` does not hear of."""
        if sample.error is not None and not sample.scores:
            self._end(sample.id, sample.epoch, Fate.FAILED, None)
            return
        answer = scored_answer(sample.scores or {}, self._judge)
        if answer is None:
            answer = extract_or_abstain(self._judge, sample.output.completion)[0]
        self._end(sample.id, sample.epoch, Fate.KEPT, answer)

    def _end(self, id: str | int, epoch: int, fate: Fate, answer: str | None) -> None:
        vote = self._votes.get(str(id))
        if vote is not None:
            vote.end(epoch, fate, answer)


_RUNNING: Final[WeakValueDictionary[str, EarlyStopping]] = WeakValueDictionary()
"""By the id of the eval."""


@hooks(name="sureenough", description="ends of epochs for early stopping, those with an error included")
class _SampleEnds(Hooks):
    async def on_sample_end(self, data: SampleEnd) -> None:
        stopping = _RUNNING.get(data.eval_id)
        if stopping is not None:
            stopping.receive(data.sample)


class _Vote:
    """The vote on a sample: its epochs are the paths of a session, all of them started."""

    def __init__(self, strategy: Strategy, judge: Judge, epochs: int) -> None:
        self._judge = judge
        self.session = Session(strategy, RunOptions(paths=epochs, parallel=epochs))
        self.run = 0
        self._missing = set(range(epochs))
        self._carry_out(self.session.begin())

    def end(self, epoch: int, fate: Fate, answer: str | None) -> None:
        """An epoch ended; only the first message about one counts."""
        if epoch - 1 in self._missing:
            self._missing.remove(epoch - 1)
            self.run += 1
            self._carry_out(self.session.receive(Ended(epoch - 1, fate, answer)))

    def outcome(self) -> Outcome:
        """The result; epochs that did not end, as in a task that was cancelled, do not hold up the votes of others."""
        for number in sorted(self._missing):
            if not self.session.done:
                self._carry_out(self.session.receive(Ended(number, Fate.FAILED)))
        return self.session.outcome()

    def _carry_out(self, actions: Sequence[Action]) -> None:
        for action in actions:
            if isinstance(action, Classify):
                classes, _ = classes_or_own(self._judge, action.answers)
                self._carry_out(self.session.receive(Regrouped(classes)))


def counting(strategy: str | Strategy) -> Strategy:
    """The strategy, which must count votes; one that learns from confidence counts them instead."""
    chosen = resolve(strategy)
    if chosen.state is not None and isinstance(chosen.weigh, BySignals):
        chosen = replace(chosen, weigh=replace(chosen.weigh, weigh="count"))
    if chosen.search is not None or chosen.reads_confidence:
        what = "searches for paths" if chosen.search is not None else "reads confidence"
        raise UsageError(
            f"{chosen.name} {what}, which epochs of Inspect do not allow; sc, ac, esc and sure count votes",
            argument="strategy",
        )
    return chosen


@score_reducer(name="vote")  # type: ignore[untyped-decorator]
def vote(
    strategy: str | Strategy = "sc", *, kind: Kind = "math", epochs: int | None = None
) -> Callable[[list[Score]], Score]:
    """A reducer: the score of the answer that won the vote. Inspect's `mode` votes over scores, which is stricter.

    Args:
        strategy: that of EarlyStopping, so that epochs that ran after the vote was settled do not change it.
        kind: says which answers are the same.
        epochs: of the task, if it stops early: strategies weigh what is left of the budget.
    """
    chosen, judge = counting(strategy), for_question(resolve_kind(kind))

    def reduce(scores: list[Score]) -> Score:
        answers = [scored_answer({"": score}, judge) for score in scores]
        voting = _Vote(chosen, judge, max(epochs or 0, len(scores)))
        for epoch, answer in enumerate(answers, start=1):
            voting.end(epoch, Fate.KEPT, answer)
        out = voting.outcome()
        winner = scores[answers.index(out.answer) if out.answer in answers else 0]
        metadata = {**(winner.metadata or {}), "votes": out.votes}
        return winner.model_copy(update={"answer": out.answer, "metadata": metadata})

    return reduce
