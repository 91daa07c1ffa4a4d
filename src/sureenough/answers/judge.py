"""The judge: which answers to one question are the same.

Classes are a function of the set of distinct keys and of the budget: keys are sorted, each joins the first class whose
representative it equals and none of whose members it certainly differs from, else it founds a class. The budget counts
the steps of symbolic code and not its time, and verdicts that are already known cost what they cost at first, so that
neither order, load nor earlier questions change a class.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from sureenough.answers import bounds
from sureenough.answers.atoms import Unreadable, write
from sureenough.answers.canonical import canonical_key
from sureenough.answers.compare import (
    COMPATIBLE,
    NOT_SYMBOLIC,
    SYMBOLIC,
    Confirm,
    Verdict,
    certainly_different,
    compare,
    leave_open,
    sum_of,
)
from sureenough.answers.grading import GradingPolicy, readings, same_when_rounded
from sureenough.answers.key_types import KINDS, Key
from sureenough.answers.symbolic import WORKER, SymbolicWorker, WorkerReply

_LOG = logging.getLogger(__name__)
STEPS_PER_SECOND = 1_000_000  # a symbolic second is this many function calls, on any machine
SYMBOLIC_SECONDS = 10.0  # per question, live
REPLAY_SECONDS = 0.2  # per question, in replay
LIVE_PATIENCE = 2.0  # seconds of waiting for verdicts, per question
REPLAY_PATIENCE = 600.0
VERSION = 3  # of keys and classes: part of the name under which grouped pools are cached

NOT_READY = Verdict(False, "no verdict in time", settled=False)
OUT_OF_BUDGET = Verdict(False, "no symbolic seconds left", settled=False)
OUT_OF_BOUNDS = Verdict(False, "too large for symbolic code", settled=False)
TOO_LARGE = Verdict(False, "too large to compare", settled=False)
_PASSING = (NOT_READY, OUT_OF_BUDGET)  # verdicts that another call may replace


class MathJudge:
    """Judges the answers to one question, and remembers what it has judged.

    `symbolic_seconds` limits the work of symbolic code in one call of `classes`, `explain` or `grade`; `patience`
    limits the real time that this judge waits for it, over all calls. What has no verdict then counts as different,
    and `unsettled` says how many pairs those were.
    """

    def __init__(
        self,
        symbolic_seconds: float = SYMBOLIC_SECONDS,
        *,
        patience: float = LIVE_PATIENCE,
        worker: SymbolicWorker = WORKER,
    ) -> None:
        self.symbolic_seconds = symbolic_seconds
        self.notes: list[str] = []
        self.unready = False
        self._patience = patience
        self._worker = worker
        self._total_steps = 0
        self._steps = 0  # of the call under way
        self._costs: list[int] = []  # of the pair under way
        self._verdicts: dict[tuple[Key, Key], tuple[Verdict, list[int]]] = {}
        self._open: set[tuple[str, str]] = set()

    @property
    def unsettled(self) -> int:
        """How many pairs agree numerically and got no symbolic verdict."""
        return len(self._open)

    @property
    def spent(self) -> float:
        """Symbolic seconds used so far; verdicts known from before are counted as well."""
        return self._total_steps / STEPS_PER_SECOND

    def same(self, one: str, two: str) -> bool:
        return self.explain(one, two).same

    def explain(self, one: str, two: str) -> Verdict:
        """Same or different, and how that was decided: str(verdict) is a sentence."""
        self._steps = 0
        return self._verdict(canonical_key(one), canonical_key(two))

    def grade(
        self,
        gold: str,
        answer: str,
        *,
        percent: bool = False,
        rounding: bool = False,
        decimal_comma: bool = False,
    ) -> bool:
        """Whether an answer is the gold one.

        Grading reads more than voting does: `f(x) = 2x` is right if the gold answer is `2x`. The options allow 28% for
        0.28, a rounded decimal for the exact value, and 1,5 for 1.5.
        """
        self._steps = 0
        policy = GradingPolicy(percent=percent, rounding=rounding, decimal_comma=decimal_comma)
        try:
            for pair in readings(gold, answer, policy):
                if self._safely(*pair, lambda a, b: self._confirm(a, b, both=False)).same:
                    return True
                if rounding and same_when_rounded(*pair):
                    return True
        except Unreadable:  # beyond the bounds of exact arithmetic
            return False
        except Exception as error:
            self._note(error)
        return False

    def classes(self, answers: Iterable[str | None]) -> list[int | None]:
        """The class of each answer, numbered by first appearance; None for None."""
        self._steps = 0
        keys = [None if answer is None else canonical_key(answer) for answer in answers]
        representatives = self._representatives({key for key in keys if key is not None})
        numbers: dict[Key, int] = {}
        out: list[int | None] = []
        for key in keys:
            if key is None:
                out.append(None)
            elif key.kind == "empty":  # an empty answer equals nothing, not even another
                numbers[Key("empty", str(len(out)))] = number = len(numbers)
                out.append(number)
            else:
                out.append(numbers.setdefault(representatives[key], len(numbers)))
        return out

    def _representatives(self, distinct: set[Key]) -> dict[Key, Key]:
        representatives: dict[Key, Key] = {}
        members: dict[str, list[list[Key]]] = {}  # of each class, by the bucket of its representative, its first
        for key in sorted(distinct, key=lambda key: key.order):
            classes = (group for bucket in _comparable(key) for group in members.get(bucket, ()))
            joined = next((group for group in classes if self._belongs(key, group)), None)
            if joined is None:
                members.setdefault(_bucket(key), []).append([key])
            else:
                joined.append(key)
            representatives[key] = key if joined is None else joined[0]
        return representatives

    def _belongs(self, key: Key, group: list[Key]) -> bool:
        """Whether a key is the same as a representative and not certainly another than one of the other members.

        52_8 and 52_9 are both the same as 52, and are not one answer.
        """
        if not self._verdict(group[0], key).same:
            return False
        return not any(certainly_different(self._safely(member, key, leave_open)) for member in group[1:])

    def _verdict(self, one: Key, two: Key) -> Verdict:
        pair = (one, two) if one.order <= two.order else (two, one)
        known = self._verdicts.get(pair)
        if known is not None:
            verdict, costs = known
            return verdict if all(map(self._charge, costs)) else OUT_OF_BUDGET
        self._costs = []
        verdict = self._safely(*pair, self._confirm)
        if verdict not in _PASSING:
            self._verdicts[pair] = verdict, self._costs
        return verdict

    def _safely(self, one: Key, two: Key, confirm: Confirm) -> Verdict:
        """Compare two keys. An error of ours is not the end of a run: the pair counts as different, with a note."""
        try:
            return compare(one, two, confirm)
        except Unreadable:
            return TOO_LARGE
        except Exception as error:
            self._note(error)
            return Verdict(False, f"internal error: {type(error).__name__}", settled=False)

    def _note(self, error: Exception) -> None:
        note = f"comparing two answers failed ({type(error).__name__}: {error}); they count as different"[:300]
        if note not in self.notes:
            self.notes.append(note)
            _LOG.warning(note)

    def _charge(self, steps: int) -> bool:
        """Count the steps of one symbolic verdict; False if the budget was used up before it."""
        if self._steps >= self.symbolic_seconds * STEPS_PER_SECOND:
            return False
        self._steps += steps
        self._total_steps += steps
        return True

    def _confirm(self, one: Key, two: Key, *, both: bool = True) -> Verdict:
        """Ask symbolic code about two expressions, if the budget and the bounds allow it."""
        sums = sum_of(one), sum_of(two)
        texts = write(sums[0]), write(sums[1])
        if both and (len(texts[1]), texts[1]) < (len(texts[0]), texts[0]):
            texts = texts[1], texts[0]
        if not all(bounds.within(write(total), total) for total in sums):
            self._open.add(texts)
            return OUT_OF_BOUNDS
        if self._steps >= self.symbolic_seconds * STEPS_PER_SECOND:
            self._open.add(texts)
            return OUT_OF_BUDGET
        reply = self._worker.ask(*texts, both=both, patience=max(0.0, self._patience))
        self._patience -= reply.seconds
        return self._accept(texts, reply)

    def _accept(self, texts: tuple[str, str], reply: WorkerReply) -> Verdict:
        if reply.settled:
            self._charge(reply.steps)
            self._costs.append(reply.steps)
        else:
            self.unready = True
        if reply.same is not None:
            self._open.discard(texts)
            return SYMBOLIC if reply.same else NOT_SYMBOLIC
        self._open.add(texts)
        return Verdict(False, f"no verdict: {reply.why}", settled=False) if reply.settled else NOT_READY


def _bucket(key: Key) -> str:
    """Plain numbers are a bucket of their own: two of them are never the same, so they are not compared."""
    return "plain" if key.kind == "number" and key.text.lstrip("-").replace("/", "").isdigit() else key.kind


def _comparable(key: Key) -> list[str]:
    bucket = _bucket(key)
    kinds = [kind for kind in _ORDER if kind in COMPATIBLE.get(key.kind, ())]
    if key.kind in ("expression", "number") and bucket != "plain":
        kinds.insert(0, "plain")
    return kinds


_ORDER = tuple(kind for kind in KINDS if kind in COMPATIBLE)
