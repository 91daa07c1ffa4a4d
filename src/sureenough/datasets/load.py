"""Load a dataset by name or from a file, and check every row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Final
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from sureenough.answers import resolve_kind
from sureenough.datasets import DATASETS
from sureenough.datasets.dataset import Dataset, Hub, refuse_bad_problem, refuse_wrong_count
from sureenough.datasets.files import READERS, DatasetProblem, RowAt, parsed, rows_of
from sureenough.drivers.record import RecordQuestion
from sureenough.errors import UsageError
from sureenough.plugins import Registry
from sureenough.templates import render_prompt, template_of


@dataclass(frozen=True, slots=True)
class Loaded:
    """A dataset with its questions."""

    dataset: Dataset
    problems: list[DatasetProblem]
    own_template: bool = False  # given by the caller, so that a model's suggestion does not replace it

    @property
    def name(self) -> str:
        return self.dataset.name

    @property
    def template(self) -> str:
        """The dataset's own, else what its kind of answer asks for."""
        return self.dataset.template or template_of(resolve_kind(self.dataset.kind))

    def record_questions(self, template: str | None = None) -> list[RecordQuestion]:
        """The questions as prompts. A row with a kind of its own is asked for that kind, unless the caller decides."""
        own, template = self.dataset, template or self.template

        def row_template(problem: DatasetProblem) -> str:
            chosen = problem.kind is None or self.own_template
            return template if chosen else template_of(resolve_kind(problem.kind))

        return [
            RecordQuestion(
                problem.id,
                render_prompt(problem.question, row_template(problem)),
                problem.gold,
                problem.level,
                own.judge(problem),
                problem.question,
                problem.kind,
            )
            for problem in self.problems
        ]

    def digest(self) -> str:
        """A hash of everything that decides what is asked and what is right."""
        digest = sha256(self.dataset.kind.encode())
        for problem in self.problems:
            digest.update(f"\0{problem.id}\0{problem.question}\0{problem.gold}\0{problem.kind}".encode())
        return digest.hexdigest()[:16]


def load(
    dataset: str,
    *,
    limit: int | None = None,
    seed: int = 0,
    columns: Mapping[str, str] | None = None,
    kind: str | None = None,
    template: str | None = None,
) -> Loaded:
    """A dataset by name, downloaded from the hub; `name=FILE`, from your own copy; or a FILE of your own questions.

    Args:
        dataset: such as math500, math500=copy.jsonl, or questions.csv.
        limit: use only the first questions; the file may then have any number of them.
        seed: of shuffled choices and generated questions.
        columns: the columns of a file: {"question": "problem", "gold": "solution"}.
        kind: of answer, instead of the dataset's own.
        template: instead of the dataset's own.
    """
    if limit is not None and limit < 1:
        raise UsageError(f"limit is {limit}; it must be at least 1, or left out", argument="limit")
    chosen, file = _named(dataset)
    kind, own_template = chosen.kind if kind is None else kind, template is not None
    resolve_kind(kind)
    chosen = replace(chosen, kind=kind, template=template if own_template else chosen.template)
    if chosen.make is not None and file is None:
        problems, where = chosen.make(seed), chosen.name
        for problem in problems:
            refuse_bad_problem(problem, chosen, f"{where}, {problem.id}")
    else:
        where = str(file) if file is not None else f"{chosen.name} from the hub"
        problems = _problems(file or fetch(chosen), chosen, where, seed, columns)
    if limit is None:
        refuse_wrong_count(len(problems), chosen, where)
    return Loaded(chosen, problems[:limit], own_template)


def _accepted(thing: object) -> Dataset:
    if not isinstance(thing, Dataset):
        raise UsageError(f"it is {type(thing).__name__}, not a sureenough.datasets.Dataset")
    return thing


REGISTRY: Final = Registry("dataset", "datasets", DATASETS, _accepted)
"""The datasets, those of other packages included."""


def _named(text: str) -> tuple[Dataset, Path | None]:
    name, equals, file = text.partition("=")
    if name in REGISTRY.names():
        return REGISTRY.find(name).thing, Path(file) if equals else None
    path = Path(text)
    if path.exists() or (path.suffix.lower() in READERS and not equals):
        return Dataset(path.stem, f"questions of {path.name}", graded=False), path
    raise UsageError(
        f"unknown dataset {name!r}; known: {', '.join(REGISTRY.names())}, or a file of questions ({', '.join(READERS)})"
    )


def _problems(
    file: Path, dataset: Dataset, where: str, seed: int, columns: Mapping[str, str] | None
) -> list[DatasetProblem]:
    rows = rows_of(file) if columns else _read(rows_of(file), dataset, where, seed)
    problems = []
    for place, problem in parsed(rows, columns, where, prefix=dataset.name + "-"):
        refuse_bad_problem(problem, dataset, f"{where}, {place}")
        problems.append(problem)
    return problems


def _read(rows: Iterator[RowAt], dataset: Dataset, where: str, seed: int) -> Iterator[RowAt]:
    for place, row in rows:
        try:
            yield place, dataset.read(row, seed)
        except UsageError as error:
            raise UsageError(f"{where}, {place} {error}") from None


# Files from the Hugging Face hub, through its own client: its cache, its login, its offline switch.


def fetch(dataset: Dataset) -> Path:
    """The dataset's file, from the cache or the hub; an error says how to give a file instead."""
    hub = dataset.hub
    assert hub is not None
    instead = (
        f"Or give a copy of your own, as JSON lines, CSV or Parquet: --dataset {dataset.name}=FILE "
        '(if its columns have other names, a plan gives them: columns = {question = "COLUMN", gold = "COLUMN"})'
    )
    try:
        import huggingface_hub as client
        from huggingface_hub import errors
    except ImportError:
        raise UsageError(
            f"{dataset.name} is downloaded from the Hugging Face hub, and its client is not installed: "
            f"pip install 'sureenough[bench]'. {instead}"
        ) from None
    try:
        return _cached(hub, client, errors) or _downloaded(hub, client, errors)
    except errors.GatedRepoError:
        raise UsageError(
            f"{hub.id} is gated: accept its terms at https://huggingface.co/datasets/{hub.id}, then log in with "
            f"`hf auth login` or set HF_TOKEN. {instead}"
        ) from None
    except (errors.RepositoryNotFoundError, errors.RemoteEntryNotFoundError, errors.RevisionNotFoundError):
        raise UsageError(
            f"the hub has no {hub.file} in {hub.id} at {hub.revision[:12]}, or not for you. {instead}"
        ) from None
    except (URLError, errors.LocalEntryNotFoundError, errors.OfflineModeIsEnabled) as error:
        reason = f" ({error.reason})" if isinstance(error, URLError) else ""
        raise UsageError(
            f"{dataset.name} is on the Hugging Face hub, which could not be reached{reason}, and no copy is cached. "
            f"Go online and try again. {instead}"
        ) from None
    except Exception as error:  # the hub's client does not say which HTTP library it uses
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise UsageError(f"{hub.id} could not be downloaded from the hub: {reason[:200]}. {instead}") from None


def _location(hub: Hub) -> dict[str, str]:
    return {"repo_id": hub.id, "repo_type": "dataset", "filename": hub.file, "revision": hub.revision}


def _cached(hub: Hub, client: Any, errors: Any) -> Path | None:
    try:
        return Path(client.hf_hub_download(**_location(hub), local_files_only=True))
    except errors.LocalEntryNotFoundError:
        return None


def _downloaded(hub: Hub, client: Any, errors: Any) -> Path:
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE:
        raise errors.OfflineModeIsEnabled
    with suppress(HTTPError):  # any status shows that the hub can be reached; its client would retry six times
        urlopen(Request(constants.ENDPOINT, method="HEAD"), timeout=10.0).close()
    return Path(client.hf_hub_download(**_location(hub)))
