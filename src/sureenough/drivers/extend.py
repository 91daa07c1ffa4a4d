"""Write a pool when its recording ends, and extend it: what it holds becomes a journal again, and only what is missing
is sampled."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from zlib import crc32

from sureenough.core.events import path_seed
from sureenough.drivers.record import RecordQuestion
from sureenough.errors import TraceError
from sureenough.pools import Journal, Pool, PoolInfo, Question, write_journal_pool
from sureenough.pools.folder_replacement import PART, FolderReplacement
from sureenough.pools.journal import Recordable, reopen, with_window
from sureenough.pools.write import system_message


def recorded_with(terms: dict[str, Any], questions: Sequence[RecordQuestion]) -> dict[str, Any]:
    """What a pool keeps of its recording, so that it can be extended: the terms, and a checksum of every prompt."""
    return {"recorded": terms, "prompts": {one.id: f"{crc32(one.prompt.text.encode()):08x}" for one in questions}}


class PoolExtension:
    """A pool that exists, checked against what is to be recorded: its paths must come from the same distribution."""

    def __init__(self, file: Path, questions: Sequence[RecordQuestion], info: PoolInfo) -> None:
        self._pool = Pool(file)
        self._check_info(info)
        wanted = {question.id: question for question in questions}
        seed: int = info.more["recorded"]["seed"]
        self.files = {Path(part.path).name for part in self._pool.parts}
        self.paths: set[tuple[str, int]] = set()
        self.others: list[Question] = []  # questions that are not to be recorded now, without their paths
        self.text = False  # whether paths were kept with their text
        prompts: dict[str, str] = {}
        for info_of_part in (part.info() for part in self._pool.parts):
            prompts |= _texts(info_of_part.more.get("prompts"))
        for question in self._pool:
            if question.id not in wanted:
                self.others.append(replace(question, paths=[]))
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

    def check_journal(self, journal: Journal) -> None:
        """Refuse to go on with a journal that lacks paths of the pool: those would be lost."""
        if any(path not in journal.paths for path in self.paths):
            raise self._refusal(f"it holds paths that {journal.file} lacks, so it changed after that was begun")

    def _check_info(self, info: PoolInfo) -> None:
        """By all terms if the pool has kept them, else by those that pools always say."""
        old, new = self._pool.info, info
        recorded, terms = old.more.get("recorded"), new.more["recorded"]
        pairs = {}
        if isinstance(recorded, dict):
            pairs["kind"] = (recorded.get("kind"), terms.get("kind"))  # before the prompt, which it changes
        pairs |= {name: (getattr(old, name), getattr(new, name)) for name in ("model", "k", "sampling", "prompt")}
        if isinstance(recorded, dict):
            pairs |= {name: (recorded.get(name), terms.get(name)) for name in terms if name != "dataset"}
        for name, (before, now) in pairs.items():
            if before != now:
                if isinstance(before, dict) and isinstance(now, dict):  # of the sampling, only what differs
                    name, before, now = _difference(before, now)
                raise self._refusal(f"it was recorded with {name} {before!r}, not {now!r}")

    def _refusal(self, reason: str) -> TraceError:
        return TraceError(f"{self._pool.name} exists and cannot be extended: {reason}; name another output")


def write_recorded_pool(
    output: Path,
    questions: Sequence[RecordQuestion],
    journal: Journal,
    info: PoolInfo,
    earlier: PoolExtension | None,
    *,
    rows_per_part: int | None,
    keep_text: bool,
) -> None:
    """Write the journal's paths as one file, or as a folder of parts with about so many paths each.

    Prompts are kept beside the questions that they belong to. What an earlier pool has of others stays.
    """
    every: list[Recordable] = [*(earlier.others if earlier else ()), *questions]
    keep = partial(write_journal_pool, journal=journal, keep_text=keep_text)
    if rows_per_part is None:
        keep(output, every, info=info)
        return
    info = with_window(info, [one.id for one in every], journal)
    with_kinds = any(one.kind is not None for one in every)
    replacement = FolderReplacement(output)
    try:
        folder = replacement.begin()
        for number, group in enumerate(_groups(every, journal, rows_per_part)):
            prompts = {one.id: info.more["prompts"][one.id] for one in group if one.id in info.more["prompts"]}
            own = replace(info, more=info.more | {"prompts": prompts})
            keep(folder / PART.format(number), group, info=own, keep_kinds=with_kinds)
        replacement.publish(earlier.files if earlier else ())
    except OSError as error:
        raise TraceError(
            f"cannot write {output}: {system_message(error)}. All paths are safe in {journal.file}; "
            "when the folder can be written, give the same command again"
        ) from None


def _groups(questions: Sequence[Recordable], journal: Journal, rows: int) -> Iterator[list[Recordable]]:
    """Questions with at least so many paths together, the last group perhaps with fewer."""
    group: list[Recordable] = []
    size = 0
    for question in questions:
        paths = len(journal.paths.numbers(question.id))
        if not paths:
            continue
        group.append(question)
        size += paths
        if size >= rows:
            yield group
            group, size = [], 0
    if group:
        yield group


def _texts(value: object) -> dict[str, str]:
    """What a file says in a JSON object of texts; other values are left out."""
    return {name: text for name, text in value.items() if isinstance(text, str)} if isinstance(value, dict) else {}


def _difference(before: dict[str, Any], now: dict[str, Any]) -> tuple[str, Any, Any]:
    """The first name with two values, and both."""
    name = next(name for name in {**before, **now} if before.get(name) != now.get(name))
    return name, before.get(name), now.get(name)
