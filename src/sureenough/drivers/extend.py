"""Extend a finished pool: what it holds becomes a journal again, and only what is missing is sampled."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from zlib import crc32

from sureenough.core.events import path_seed
from sureenough.drivers.record import RecordQuestion
from sureenough.errors import TraceError
from sureenough.pools import Pool, PoolInfo, Question
from sureenough.pools.journal import reopen


def recorded_with(terms: dict[str, Any], questions: Sequence[RecordQuestion]) -> dict[str, Any]:
    """What a pool keeps of its recording, so that it can be extended: the terms, and a checksum of every prompt."""
    return {"recorded": terms, "prompts": {one.id: f"{crc32(one.prompt.text.encode()):08x}" for one in questions}}


class PoolExtension:
    """A pool that exists, checked against what is to be recorded: its paths must come from the same distribution."""

    def __init__(self, file: Path, questions: Sequence[RecordQuestion], info: PoolInfo) -> None:
        self._pool = Pool(file)
        self.info = self._pool.info
        self._check_info(info)
        wanted = {question.id: question for question in questions}
        seed: int = info.more["recorded"]["seed"]
        self.paths: set[tuple[str, int]] = set()
        self.others: list[Question] = []  # questions that are not to be recorded now, without their paths
        self.text = False  # whether paths were kept with their text
        prompts = self._pool.info.more.get("prompts", {})
        for question in self._pool:
            if question.id not in wanted:
                self.others.append(Question(question.id, question.gold, question.level, [], kind=question.kind))
            elif wanted[question.id].gold != question.gold:
                raise self._refusal(f"question {question.id!r} has another gold answer in it")
            elif prompts.get(question.id) not in (None, info.more["prompts"][question.id]):
                raise self._refusal(f"question {question.id!r} has another text in it")
            for path in question.paths:
                if path.number is None or path.seed not in (None, path_seed(seed, path.number)):
                    raise self._refusal("its paths have other seeds")
                self.paths.add((question.id, path.number))
                self.text |= path.text is not None
        info.more["prompts"] = prompts | info.more["prompts"]

    def reopen(self, journal: Path, terms: dict[str, Any]) -> None:
        """Make the pool's journal; if this is killed, the pool is as it was."""
        reopen(self._pool, journal, terms)

    def _check_info(self, info: PoolInfo) -> None:
        """By all terms if the pool has kept them, else by those that pools always say."""
        old, new = self._pool.info, info
        recorded, terms = old.more.get("recorded"), new.more["recorded"]
        pairs = {}
        if isinstance(recorded, dict):
            pairs["kind"] = (recorded.get("kind"), terms.get("kind"))  # before the prompt, which it changes
        pairs |= {name: (getattr(old, name), getattr(new, name)) for name in ("model", "k", "sampling", "prompt")}
        if isinstance(recorded, dict):
            names = {**terms, "probes": None}  # that of a pool without probes is missing
            pairs |= {name: (recorded.get(name), terms.get(name)) for name in names if name != "dataset"}
        for name, (before, now) in pairs.items():
            if before != now:
                if name == "probes":
                    raise self._refusal(f"it was recorded {_with_probes(before)}, not {_with_probes(now)}")
                raise self._refusal(f"it was recorded with {name} {before!r}, not {now!r}")

    def _refusal(self, reason: str) -> TraceError:
        return TraceError(f"{self._pool.file} exists and cannot be extended: {reason}; name another output")


def _with_probes(probes: Any) -> str:
    return f"with probes every={probes.get('every')}" if isinstance(probes, dict) else "without probes"
