"""Load a dataset by name or from a file, and check every row."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Final
from unicodedata import category
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from sureenough.answers import Judge, canonical_key, extract, for_question, resolve_kind
from sureenough.answers.kinds import ALL_LETTERS, LetterChoice, Math
from sureenough.datasets.builtin import DATASETS, Dataset, Hub
from sureenough.datasets.files import READERS, DatasetProblem
from sureenough.datasets.files import load as read_file
from sureenough.drivers.record import RecordQuestion
from sureenough.errors import UsageError
from sureenough.plugins import Registry
from sureenough.redact import first_line
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
        """The questions as prompts, by default from the dataset's own template."""
        wording = template or self.template
        return record_questions(self.problems, self.dataset.kind, wording, own_template=self.own_template)

    def digest(self) -> str:
        """A hash of everything that decides what is asked and what is right."""
        digest = sha256(self.dataset.kind.encode())
        for problem in self.problems:
            digest.update(f"\0{problem.id}\0{problem.question}\0{problem.gold}\0{problem.kind}".encode())
        return digest.hexdigest()[:16]


def record_questions(
    problems: list[DatasetProblem], kind: str, template: str, *, own_template: bool
) -> list[RecordQuestion]:
    """Questions as prompts; a row with a kind of its own is asked for that kind, unless the caller gave a template."""
    common = resolve_kind(kind)
    questions = []
    for problem in problems:
        judge = common if problem.kind is None else resolve_kind(problem.kind, registered_only=True)
        wording = template if problem.kind is None or own_template else template_of(judge)
        prompt = render_prompt(problem.question, wording)
        questions.append(
            RecordQuestion(problem.id, prompt, problem.gold, problem.level, judge, problem.question, problem.kind)
        )
    return questions


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
        seed: of shuffled choices.
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
        return Loaded(chosen, chosen.make(seed)[:limit], own_template)
    source = str(file) if file is not None else f"{chosen.name} from the hub"
    problems = read_file(
        file or fetch(chosen),
        columns,
        source=source,
        prefix=chosen.name + "-",
        read=None if columns else lambda row: chosen.read(row, seed),
        check=lambda problem: _check(problem, chosen),
    )
    if limit is None and chosen.count not in (None, len(problems)):
        raise UsageError(
            f"{source} holds {len(problems)} questions, {chosen.name} has {chosen.count}; use a complete copy, "
            f"or ask for a part of it with --limit {min(len(problems), chosen.count or 0)}"
        )
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


def _check(problem: DatasetProblem, dataset: Dataset) -> None:
    """Refuse control characters, and answers that are missing or cannot be read, without showing the question."""
    if any(category(c) == "Cc" for c in problem.id):
        raise UsageError(f"the id {problem.id!r} holds a control character")
    text = problem.question.replace("\r\n", "\n")
    character = next((c for c in text if category(c) in ("Cc", "Cs") and c not in "\n\t"), None)  # MATH-500 has tabs
    if character is not None:
        raise UsageError(
            f"the question holds the control character {character!r}; a copy that lost its backslashes has it "
            "(\\frac becomes a form feed): use another copy"
        )
    if problem.gold is None and dataset.graded:
        raise UsageError("no answer in the columns gold or answer")
    if problem.gold is not None:
        judge = for_question(dataset.judge(problem), problem.question)
        reason = _unreadable(problem.gold, judge, dataset, problem.kind)
        if reason is not None:
            raise UsageError(f"the answer {problem.gold[:60]!r} {reason}")


def _unreadable(gold: str, judge: Judge, dataset: Dataset, kind: str | None) -> str | None:
    if isinstance(judge, LetterChoice):
        letters = judge.letters or ALL_LETTERS
        one_of_them = len(gold) == 1 and gold in letters
        return None if one_of_them else f"is not a choice; it must be one of {', '.join(letters)}"
    if not isinstance(judge, Math):
        key = getattr(judge, "key", lambda gold: gold)
        return f"is not of the kind {kind or dataset.kind}" if key(gold) is None else None
    if extract(f"\\boxed{{{gold}}}") is None or canonical_key(gold).kind == "empty":
        return "cannot be read: are its braces balanced?"
    return None


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
        return _hub_file(hub, client, errors)
    except errors.GatedRepoError:
        raise UsageError(
            f"{hub.id} is gated: accept its terms at https://huggingface.co/datasets/{hub.id}, then log in with "
            f"`hf auth login` or set HF_TOKEN. {instead}"
        ) from None
    except (URLError, errors.LocalEntryNotFoundError, errors.OfflineModeIsEnabled) as error:
        reason = f" ({error.reason})" if isinstance(error, URLError) else ""
        raise UsageError(
            f"{dataset.name} is on the Hugging Face hub, which could not be reached{reason}, and no copy is cached. "
            f"Go online and try again. {instead}"
        ) from None
    except Exception as error:  # the hub's client does not say which HTTP library it uses
        raise UsageError(
            f"{hub.file} of {hub.id} could not be downloaded from the hub: {first_line(error)}. {instead}"
        ) from None


def _hub_file(hub: Hub, client: Any, errors: Any) -> Path:
    """From the cache, else downloaded."""
    location = {"repo_id": hub.id, "repo_type": "dataset", "filename": hub.file, "revision": hub.revision}
    with suppress(errors.LocalEntryNotFoundError):
        return Path(client.hf_hub_download(**location, local_files_only=True))
    if client.constants.HF_HUB_OFFLINE:
        raise errors.OfflineModeIsEnabled
    with suppress(HTTPError):  # any status shows that the hub can be reached; its client would retry six times
        urlopen(Request(client.constants.ENDPOINT, method="HEAD"), timeout=10.0).close()
    return Path(client.hf_hub_download(**location))
