"""From a name or a file to questions that were checked, row by row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

from sureenough.api import render_prompt
from sureenough.datasets import DATASETS, Dataset
from sureenough.datasets.checks import refuse_bad_problem, refuse_wrong_count
from sureenough.datasets.files import READERS, DatasetProblem, RowAt, parsed, rows_of
from sureenough.datasets.hub import fetch
from sureenough.drivers.judging import extractor_for
from sureenough.drivers.record import RecordQuestion
from sureenough.errors import UsageError


@dataclass(frozen=True, slots=True)
class Loaded:
    """A dataset with its questions."""

    dataset: Dataset
    problems: list[DatasetProblem]
    own_template: bool = False  # the caller's, which no model's wish replaces

    @property
    def name(self) -> str:
        return self.dataset.name

    def asked(self, template: str | None = None) -> list[RecordQuestion]:
        """The questions as they are put to a model; the dataset's own way, unless the model wants another."""
        told = self.dataset
        return [
            RecordQuestion(
                p.id,
                render_prompt(p.question, template or told.template),
                p.gold,
                p.level,
                extractor_for(p.kind or told.kind),
            )
            for p in self.problems
        ]

    def digest(self) -> str:
        """Of everything that decides what is asked and what is right; says nothing of the text."""
        said = sha256(self.dataset.kind.encode())
        for problem in self.problems:
            said.update(f"\0{problem.id}\0{problem.question}\0{problem.gold}\0{problem.kind}".encode())
        return said.hexdigest()[:16]


def load(
    text: str,
    *,
    limit: int | None = None,
    seed: int = 0,
    columns: Mapping[str, str] | None = None,
    kind: str | None = None,
    template: str | None = None,
) -> Loaded:
    """A dataset by name, from the hub; `name=FILE`, from a copy of one's own; or a FILE of questions of one's own.

    Args:
        text: such as math500, math500=copy.jsonl, or questions.csv.
        limit: only the first so many; then the whole may have any number.
        seed: of shuffled choices and of made questions.
        columns: where a file has what: {"question": "problem", "gold": "solution"}.
        kind: of answer, in place of the dataset's own.
        template: in place of the dataset's own.
    """
    if limit is not None and limit < 1:
        raise UsageError(f"limit is {limit}; it must be at least 1, or left out")
    dataset, file = _named(text)
    dataset = replace(
        dataset,
        kind=dataset.kind if kind is None else kind,
        template=dataset.template if template is None else template,
    )
    if dataset.make is not None and file is None:
        problems, where = dataset.make(seed), dataset.name
        for problem in problems:
            refuse_bad_problem(problem, dataset, f"{where}, {problem.id}")
    else:
        where = str(file) if file is not None else f"{dataset.name} of the hub"
        problems = _problems(file or fetch(dataset), dataset, where, seed, columns)
    if limit is None:
        refuse_wrong_count(len(problems), dataset, where)
    return Loaded(dataset, problems[:limit], template is not None)


def _named(text: str) -> tuple[Dataset, Path | None]:
    name, equals, file = text.partition("=")
    if name in DATASETS:
        return DATASETS[name], Path(file) if equals else None
    path = Path(text)
    if path.exists() or (path.suffix.lower() in READERS and not equals):
        return Dataset(path.stem, f"questions of {path.name}", graded=False), path
    raise UsageError(
        f"unknown dataset {name!r}; known: {', '.join(DATASETS)}, or a file of questions ({', '.join(READERS)})"
    )


def _problems(
    file: Path, dataset: Dataset, where: str, seed: int, columns: Mapping[str, str] | None
) -> list[DatasetProblem]:
    placed = rows_of(file) if columns else _read(rows_of(file), dataset, where, seed)
    problems = []
    for place, problem in parsed(placed, columns, where, prefix=dataset.name + "-"):
        refuse_bad_problem(problem, dataset, f"{where}, {place}")
        problems.append(problem)
    return problems


def _read(rows: Iterator[RowAt], dataset: Dataset, where: str, seed: int) -> Iterator[RowAt]:
    for place, row in rows:
        try:
            yield place, dataset.read(row, seed)
        except UsageError as error:
            raise UsageError(f"{where}, {place} {error}") from None
