"""The judge: which answers to one question are the same, within a budget of symbolic seconds.

Classes are a function of the set of distinct keys, so neither the order nor the number of arrivals moves
them: keys are sorted, each joins the first representative that it equals, else it founds a class.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sureenough.answers import bounds
from sureenough.answers.canonical import canonical_key
from sureenough.answers.compare import COMPATIBLE, NOT_SYMBOLIC, SYMBOLIC, Verdict, compare, sum_of
from sureenough.answers.key_types import KINDS, Key
from sureenough.answers.symbolic import WAIT, WORKER, Worker

SYMBOLIC_SECONDS = 10.0  # a question, live
REPLAY_SECONDS = 0.2  # a question, in replay
VERSION = 2  # of keys and classes: part of the name under which grouped pools are cached

_FULL = 0.9  # of its time: what a pair must have had for its timeout to be its own
TIMEOUT = Verdict(False, "timeout", settled=False)
NOT_READY = Verdict(False, "timeout: the worker was not ready", settled=False)
OUT_OF_BUDGET = Verdict(False, "timeout: no symbolic seconds left", settled=False)
OUT_OF_BOUNDS = Verdict(False, "too large for symbolic code", settled=False)


class _VerdictCache:
    """Symbolic verdicts, shared by all judges of this process; the least used go first."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._known: OrderedDict[tuple[str, str, bool], bool] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, pair: tuple[str, str, bool]) -> bool | None:
        with self._lock:
            if pair in self._known:
                self._known.move_to_end(pair)
            return self._known.get(pair)

    def put(self, pair: tuple[str, str, bool], same: bool) -> None:
        with self._lock:
            self._known[pair] = same
            if len(self._known) > self._size:
                self._known.popitem(last=False)


_SHARED_VERDICTS = _VerdictCache(16384)


class Judge:
    """Judges the answers to one question, and remembers what it has judged.

    `symbolic_seconds` is all the time that symbolic code may take for this question; what is open after
    that counts as different, and `unsettled` says how many pairs those were.
    """

    def __init__(self, symbolic_seconds: float = SYMBOLIC_SECONDS, *, worker: Worker = WORKER) -> None:
        self.symbolic_seconds = symbolic_seconds
        self.spent = 0.0
        self._worker = worker
        self._waited = 0.0
        self._verdicts: dict[tuple[Key, Key], Verdict] = {}
        self._unready = False
        self._open: dict[tuple[str, str], Verdict] = {}

    @property
    def unsettled(self) -> int:
        """Pairs that agree numerically and got no symbolic verdict."""
        return len(self._open)

    @property
    def unready(self) -> bool:
        """Whether some pair was not asked, or not for its whole time, for want of a ready worker.

        Then another run may judge otherwise, and what this judge found is not to be kept.
        """
        return self._unready

    def same(self, one: str, two: str) -> bool:
        return self.explain(one, two).same

    def explain(self, one: str, two: str) -> Verdict:
        """Same or different, and how that was decided: str(verdict) is a sentence."""
        return self._verdict(canonical_key(one), canonical_key(two))

    def grade(self, gold: str, answer: str) -> bool:
        """Whether an answer is the gold one: the same keys, and math-verify with the gold first."""
        return compare(canonical_key(gold), canonical_key(answer), lambda a, b: self._confirm(a, b, both=False)).same

    def classes(self, answers: Iterable[str | None]) -> list[int | None]:
        """The class of each answer, numbered by first appearance; None for None."""
        keys = [None if answer is None else canonical_key(answer) for answer in answers]
        leader = self._leaders({own for own in keys if own is not None})
        numbers: dict[Key, int] = {}
        out: list[int | None] = []
        for own in keys:
            if own is None:
                out.append(None)
            elif own.kind == "empty":  # an empty answer equals nothing, not even another
                numbers[Key("empty", str(len(out)))] = number = len(numbers)
                out.append(number)
            else:
                out.append(numbers.setdefault(leader[own], len(numbers)))
        return out

    def _leaders(self, distinct: set[Key]) -> dict[Key, Key]:
        """Each key's representative."""
        leader: dict[Key, Key] = {}
        founders: dict[str, list[Key]] = {}
        for own in sorted(distinct, key=lambda found: found.order):
            leader[own] = own
            for kind in _comparable(own):
                for founder in founders.get(kind, ()):
                    if self._verdict(founder, own).same:
                        leader[own] = founder
                        break
                if leader[own] is not own:
                    break
            else:
                founders.setdefault(_pile(own), []).append(own)
        return leader

    def _verdict(self, one: Key, two: Key) -> Verdict:
        pair = (one, two) if one.order <= two.order else (two, one)
        verdict = self._verdicts.get(pair)
        if verdict is None:
            verdict = compare(*pair, self._confirm)
            if verdict is not NOT_READY:  # the worker will be ready another time
                self._verdicts[pair] = verdict
        return verdict

    def _confirm(self, one: str, two: str, *, both: bool = True) -> Verdict:
        """Ask the worker about two expressions, if the budget and the bounds allow it."""
        pair = (one, two) if not both or (len(one), one) <= (len(two), two) else (two, one)
        known = _SHARED_VERDICTS.get((*pair, both))
        if known is not None:
            return SYMBOLIC if known else NOT_SYMBOLIC
        tried = self._open.get(pair, NOT_READY)
        if tried is not NOT_READY:  # one timeout a question is enough for a pair
            return tried
        verdict = self._ask(*pair, both)
        if verdict.settled:
            _SHARED_VERDICTS.put((*pair, both), verdict.same)
            self._open.pop(pair, None)
        else:
            self._open[pair] = verdict
        return verdict

    def _ask(self, one: str, two: str, both: bool) -> Verdict:
        if not all(bounds.within(text, sum_of(Key("expression", text))) for text in (one, two)):
            return OUT_OF_BOUNDS
        left = self.symbolic_seconds - self.spent
        if left <= 0:
            return OUT_OF_BUDGET
        patience = max(0.0, WAIT - self._waited)
        reply = self._worker.ask(one, two, both=both, limit=left, patience=patience)
        self.spent += reply.seconds
        self._waited += reply.waited
        if reply.same is not None:
            return SYMBOLIC if reply.same else NOT_SYMBOLIC
        # A timeout that a wait for the worker cut short says nothing about the pair.
        short = reply.why == "timeout" and reply.seconds < _FULL * min(left, WAIT)
        self._unready = self._unready or short or reply.why == "no worker"
        if reply.why == "timeout":
            return TIMEOUT if reply.seconds else NOT_READY
        return Verdict(False, f"no verdict: {reply.why}", settled=False)


def _pile(own: Key) -> str:
    """Plain numbers are one pile of their own: two of them are never the same, so they are not compared."""
    return "plain" if own.kind == "number" and own.text.lstrip("-").replace("/", "").isdigit() else own.kind


def _comparable(own: Key) -> list[str]:
    pile = _pile(own)
    kinds = [kind for kind in _ORDER if kind in COMPATIBLE.get(own.kind, ())]
    if own.kind in ("expression", "number") and pile != "plain":
        kinds.insert(0, "plain")
    return kinds


_ORDER = tuple(kind for kind in KINDS if kind in COMPATIBLE)


@dataclass(frozen=True, slots=True)
class Grouped:
    """The classes of many questions, and what it cost to find them."""

    classes: dict[str, list[int | None]]
    unsettled: int
    symbolic_seconds: float


def group(
    answers: Mapping[str, Sequence[str | None]],
    *,
    symbolic_seconds: float = REPLAY_SECONDS,
    worker: Worker = WORKER,
) -> Grouped:
    """The classes of a whole pool, question by question: what replay does once, before any strategy."""
    found: dict[str, list[int | None]] = {}
    unsettled, spent = 0, 0.0
    for question, given in answers.items():
        judge = Judge(symbolic_seconds, worker=worker)
        found[question] = judge.classes(given)
        unsettled += judge.unsettled
        spent += judge.spent
    return Grouped(found, unsettled, spent)
