"""Logs of other programs as pools: Inspect, lm-evaluation-harness, and JSON lines or CSV with a row per path.

A log may hold its paths in any order and be larger than memory: they are sorted in a temporary database, and written
when all files have been read without an error. What a log lacks is a note of its pool, and nothing is filled in.

This is not in `pools`, which knows neither kinds of answers nor how an engine reduces log-probabilities.
"""

from __future__ import annotations

import csv
import json
import re
import sqlite3
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from itertools import groupby
from math import isnan
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from sureenough.answers import Judge, for_question, resolve_kind
from sureenough.datasets.files import Row, as_text
from sureenough.drivers.judging import extract_or_abstain
from sureenough.engines.openai.logprobs import token_signals
from sureenough.errors import MissingLogprobs, SureEnoughError, TraceError, UsageError
from sureenough.json_text import HOLDS_HALF, has_halves, mend
from sureenough.pools import Pool, PoolInfo, Question, RecordedPath, write_pool
from sureenough.redact import first_line
from sureenough.strategies import STRATEGIES

COLUMNS: Final = {
    "question": ("question", "question_id", "id"),
    "path": ("path", "sample", "epoch"),
    "text": ("text", "completion", "response"),
    "answer": ("answer",),
    "gold": ("gold", "target"),
    "tokens": ("tokens", "completion_tokens"),
    "finish": ("finish", "finish_reason"),
    "logprobs": ("logprobs",),
    "model": ("model",),
}
"""What a row can hold, and the columns in which it is looked for: the first that its file has."""

LONGEST: Final = 1 << 25
"""Bytes of a line, of a cell of CSV, and of a sample of Inspect."""
LARGEST_JSON: Final = 1 << 28
"""Bytes of a log that can only be read whole."""
BATCH: Final = 1 << 26
"""Bytes of Inspect's samples that are decoded at once."""
K: Final = PoolInfo().k


class LoggedPath(NamedTuple):
    """A path as a log has it; None for what it does not have."""

    question: str
    number: int | None = None
    text: str | None = None
    answer: str | None = None
    gold: str | None = None
    tokens: int | None = None
    cut: bool = False
    logprobs: Sequence[Sequence[float]] | None = None  # of every token's candidates
    model: str | None = None
    question_text: str | None = None


@dataclass(eq=False)
class Log:
    """A file that is read, and what there is to say about it."""

    file: Path
    judge: Judge
    columns: Mapping[str, str]
    dataset: str = ""
    place: str = ""  # what is being read, for messages
    chosen: str | None = None  # the filter of lm-evaluation-harness whose rows count, or "columns"
    noted: Counter[str] = field(default_factory=Counter)  # facts, and how many paths each is about if it is about some

    def note(self, fact: str, paths: int = 0) -> None:
        self.noted[fact] += paths

    def notes(self) -> list[str]:
        return [f"{fact}: {paths:,}" if paths else fact for fact, paths in self.noted.items()]


def import_pools(
    files: Sequence[str | Path], output: str | Path, *, kind: str = "math", columns: Mapping[str, str] | None = None
) -> list[Pool]:
    """Import logs, one pool per file and model; `info.more["imported"]` of each says what its log lacks.

    Args:
        files: logs of Inspect (.eval, .json) or lm-evaluation-harness (samples_*.jsonl), JSON lines or CSV.
        output: the pool to write, which ends in .parquet; otherwise a folder for any number of pools.
        kind: of answer: how answers are read from texts, where the log does not have them, and compared.
        columns: of JSON lines and CSV, by our names: {"question": "id", "text": "completion"}.
    """
    judge = for_question(resolve_kind(kind))
    try:
        with closing(sqlite3.connect("")) as database:  # a file without a name, which the system removes
            paths = _SortedPaths(database, judge)
            for file in map(Path, files):
                paths.add_all(Log(file, judge, columns or {}, dataset=file.stem))
            return _write(paths, Path(output), kind)
    except sqlite3.Error as error:
        raise TraceError(f"the logs cannot be sorted: {error}; TMPDIR names a folder with more room") from None


# -- sorting


class _SortedPaths:
    """All paths of an import, by run, question and number, on disk."""

    def __init__(self, database: sqlite3.Connection, judge: Judge) -> None:
        self._database, self._judge = database, judge
        self.runs: dict[tuple[Log, str | None], int] = {}  # by log and model
        self._failure: str | None = None
        database.execute("PRAGMA journal_mode = OFF")
        database.create_function("extracted", 1, self._extract)
        database.execute(
            "CREATE TABLE questions "
            "(number INTEGER PRIMARY KEY, run INTEGER, id, gold, text, numbered, UNIQUE (run, id))"
        )
        database.execute(
            "CREATE TABLE paths (question INTEGER, number INTEGER, answer, text, cut, tokens, peak, conf, "
            "UNIQUE (question, number))"
        )

    def add_all(self, log: Log) -> None:
        """Read a file; a file without paths is an error."""
        earlier = len(self.runs)
        try:
            for path in _reader(log.file)(log):
                self._add(log, path)
        except UsageError as error:
            raise UsageError(f"{log.file}{log.place and ', '}{log.place}: {error}") from None
        except UnicodeDecodeError:
            raise UsageError(f"{log.file} is not UTF-8 text; convert it with `iconv -t utf-8`") from None
        except OSError as error:
            raise UsageError(f"{log.file} cannot be read: {error.strerror or error}") from None
        if len(self.runs) == earlier:
            raise UsageError(f"{log.file} holds no paths; nothing was imported")

    def _add(self, log: Log, path: LoggedPath) -> None:
        for name in ("question", "gold", "answer"):
            if has_halves(getattr(path, name) or ""):
                raise UsageError(f"the {name} {HOLDS_HALF}")
        execute, numbered = self._database.execute, path.number is not None
        run = self.runs.setdefault((log, path.model), len(self.runs))
        execute(
            "INSERT OR IGNORE INTO questions VALUES (NULL, ?, ?, ?, ?, ?)",
            (run, path.question, path.gold, path.question_text, numbered),
        )
        query = "SELECT number, gold, numbered FROM questions WHERE run = ? AND id = ?"
        question, gold, others_numbered = execute(query, (run, path.question)).fetchone()
        where = f"question {path.question!r:.80}: "
        if gold != path.gold:
            raise UsageError(f"{where}gold is {path.gold!r:.80}, and {gold!r:.80} for another path of the question")
        if numbered != others_numbered:
            raise UsageError(f"{where}some paths of the question have a number and some have none")
        peak, conf = _signals(log, path)
        tokens = path.tokens if conf is None else len(conf) // 8
        text = None if path.text is None else mend(path.text)
        row = question, path.number, path.answer, text, path.cut, tokens, peak, conf
        try:
            execute("INSERT INTO paths VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
        except sqlite3.IntegrityError:
            raise UsageError(
                f"{where}path {path.number} is there twice: give the question's paths different numbers"
            ) from None

    def questions(self, run: int, *, signals: bool, tokens: bool) -> Iterator[Question]:
        """A run's questions in the order in which they came."""
        rows = self._database.execute(
            "SELECT q.number, q.id, q.gold, q.text, p.* FROM questions q CROSS JOIN paths p ON p.question = q.number "
            "WHERE q.run = ? ORDER BY q.number, p.number, p.rowid",
            (run,),
        )
        for (_, name, gold, text), group in groupby(rows, key=lambda row: row[:4]):
            paths = [_recorded(number, *row[5:], signals=signals, tokens=tokens) for number, row in enumerate(group)]
            yield Question(name, gold, None, paths, text)

    def known(self, run: int) -> tuple[int, ...]:
        """Of a run: its questions and those with gold; its paths, and those with answer, text, tokens and signals."""
        columns = "count(*), count(answer), count(text), count(tokens), count(conf)"
        queries = "SELECT count(*), count(gold) FROM questions WHERE run = ?", f"SELECT {columns} FROM paths {_OF_RUN}"
        return tuple(one for query in queries for one in self._database.execute(query, (run,)).fetchone())

    def read_answers(self, run: int) -> int:
        """Extract the answers of a run whose log has none; returns how many there are."""
        self._database.execute(f"UPDATE paths SET answer = extracted(text) {_OF_RUN}", (run,))
        if self._failure is not None:
            raise UsageError(self._failure)
        found: int = self._database.execute(f"SELECT count(answer) FROM paths {_OF_RUN}", (run,)).fetchone()[0]
        return found

    def _extract(self, text: str | None) -> str | None:
        answer, failure = (None, None) if text is None else extract_or_abstain(self._judge, text)
        self._failure = self._failure or failure
        return None if answer is None else mend(answer)


_OF_RUN: Final = "WHERE question IN (SELECT number FROM questions WHERE run = ?)"


def _signals(log: Log, path: LoggedPath) -> tuple[bytes | None, bytes | None]:
    """`peak` and `conf` as a live engine reduces them; none if it would refuse these log-probabilities."""
    if not path.logprobs:
        return None, None
    if path.tokens is not None and path.tokens > len(path.logprobs) + 1:  # one token ends the path, and may be left out
        log.note("paths with log-probabilities for a part of their tokens, left out", 1)
        return None, None
    try:
        pairs = np.array([token_signals(candidates, K) for candidates in path.logprobs])
    except MissingLogprobs:
        log.note(f"paths with log-probabilities of fewer than {K} candidates per token, left out", 1)
        return None, None
    return pairs[:, 0].tobytes(), pairs[:, 1].tobytes()


def _recorded(
    number: int, logged: int | None, answer: str | None, text: str | None, cut: bool, length: int | None,
    peak: bytes | None, conf: bytes | None, *, signals: bool, tokens: bool,
) -> RecordedPath:  # fmt: skip
    rest: Any = {"number": number if logged is None else logged, "finish": "length" if cut else "stop", "text": text}
    if not signals:
        return RecordedPath(answer, tokens=int(length or 0) if tokens else 1, **rest)
    return RecordedPath(answer, np.frombuffer(peak or b""), np.frombuffer(conf or b""), **rest)


# -- writing


def _write(paths: _SortedPaths, output: Path, kind: str) -> list[Pool]:
    """Write every pool, or none."""
    files = _outputs(list(paths.runs), output)
    written: list[Path] = []
    try:
        if output.suffix != ".parquet":
            output.mkdir(exist_ok=True)
        for (log, model), file in zip(paths.runs, files, strict=True):
            _write_one(paths, log, model, file, kind)
            written.append(file)
        return [Pool(file) for file in files]
    except BaseException as error:
        for file in written:
            file.unlink(missing_ok=True)
        with suppress(OSError):  # other files are in it
            output.rmdir()
        if isinstance(error, OSError):
            raise TraceError(f"cannot write {output}: {error.strerror or error}") from None
        raise


def _outputs(runs: Sequence[tuple[Log, str | None]], output: Path) -> list[Path]:
    """Where each run is written: names of models are text of others, and become names of files."""
    if output.suffix == ".parquet":
        if len(runs) > 1:
            raise UsageError(f"the logs hold {len(runs):,} runs, a pool each: name a folder, not {output}")
        files = [output]
    else:
        names: dict[str, Path] = {}
        for log, model in runs:
            label = "-".join(filter(None, (log.dataset, model)))
            name = re.sub(r"[^\w.+@=-]+", "-", label, flags=re.ASCII).strip("-._")[:120] or "pool"
            same = sum(one.startswith(name.lower()) for one in names)
            name = name if name.lower() not in names else f"{name}~{same + 1}"
            names[name.lower()] = output / f"{name}.parquet"
        files = list(names.values())
    existing = next((file for file in files if file.exists()), None)
    if existing is not None:
        raise UsageError(f"{existing} exists; name another output with -o")
    return files


def _write_one(paths: _SortedPaths, log: Log, model: str | None, file: Path, kind: str) -> None:
    run = paths.runs[log, model]
    notes = log.notes()
    questions, golds, total, answers, texts, tokens, signals = paths.known(run)
    if not answers and texts:
        notes.append(f"answers are read from the texts, as kind {kind}")
        answers = paths.read_answers(run)
    if not answers:
        notes.append("no path has an answer: name the kind of answer (--kind), or map the column that has it")
    counting = ", ".join(name for name, one in STRATEGIES.items() if not (one.reads_confidence or one.search))
    for having, of, what, effect in (
        (golds, questions, "questions have a gold answer", "the others show agreement only"),
        (tokens, total, "paths have a token count", "every path counts as one token"),
        (signals, total, "paths have log-probabilities",
         f"{counting} can be replayed, and sure, which counts votes; others read confidence"),
    ):  # fmt: skip
        if having < of:
            notes.append(f"{having:,} of {of:,} {what}: {effect}")
    info = PoolInfo(
        log.dataset, model, "imported", kind=kind, more={"imported": {"file": log.file.name, "notes": notes}}
    )
    recorded = paths.questions(run, signals=signals == total, tokens=tokens == total)
    write_pool(file, recorded, info, optional=("tokens", "text", "question_text"))


# -- the formats

Reader = Callable[[Log], Iterator[LoggedPath]]


def is_log(file: Path) -> bool:
    """Whether it is a log of Inspect or lm-evaluation-harness. Other rows may be questions as well as paths."""
    with suppress(OSError, ValueError, RecursionError):
        if _reader(file) is not _json_rows:
            return _reader(file) is _inspect_log
        with open(file, "rb") as opened:
            return _is_harness(json.loads(opened.readline(LONGEST)))
    return False


def _is_harness(row: Any) -> bool:
    return isinstance(row, dict) and {"doc_id", "resps"} <= row.keys()


def _head(file: Path) -> bytes:
    with open(file, "rb") as opened:
        return opened.read(1 << 12)


def _reader(file: Path) -> Reader:
    """The reader of a file's format, which its first bytes show."""
    if file.is_dir():
        raise UsageError(f"it is a folder; give the logs in it, as in {file}/*.eval")
    if file.exists() and not file.is_file():  # a pipe can be read once only, and may block
        raise UsageError("it is not a regular file; copy its content to one")
    head = _head(file)
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if head.startswith(_ZIP) or re.match(rb'\{\s*"version":\s*\d+,\s*"status":', text):
        return _inspect_log
    if head.startswith(b"PAR1"):
        raise UsageError("it is Parquet: `sureenough replay` reads pools; export other tables to JSON lines or CSV")
    if text.startswith(b"{"):
        return _json_rows
    if text.startswith(b"["):
        raise UsageError("it is one JSON array; write an object per line (JSON lines), as `jq -c '.[]'` does")
    if not text or b"\0" in text:
        problem = "is not a log" if text else "is empty"
        raise UsageError(f"it {problem}; logs are those of Inspect or lm-evaluation-harness, JSON lines or CSV")
    return _csv_rows


def _lines(log: Log) -> Iterator[str]:
    with open(log.file, "rb") as opened:
        for number, line in enumerate(iter(lambda: opened.readline(LONGEST + 1), b""), start=1):
            log.place = f"line {number}"
            if len(line) > LONGEST:
                raise UsageError(f"the line has more than {LONGEST >> 20} MiB")
            yield line.decode("utf-8-sig" if number == 1 else "utf-8")


def _json_rows(log: Log) -> Iterator[LoggedPath]:
    harness: bool | None = None
    for line in _lines(log):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise UsageError(f"it is not JSON ({first_line(error)})") from None
        if not isinstance(row, dict):
            raise UsageError(f"a line is an object, not {type(row).__name__}")
        harness = _is_harness(row) if harness is None else harness
        yield from _harness_paths(log, row) if harness else [_row_path(log, row)]


def _csv_rows(log: Log) -> Iterator[LoggedPath]:
    before = csv.field_size_limit(LONGEST)
    head = _head(log.file).partition(b"\n")[0]
    delimiter = "\t" if head.count(b"\t") > head.count(b",") else ","
    try:
        for row in csv.DictReader(_lines(log), delimiter=delimiter, strict=True):
            if None in row or None in row.values():
                raise UsageError("it has not as many cells as the header; quote text that contains commas")
            yield _row_path(log, row)
    except csv.Error as error:
        raise UsageError(f"it is not CSV ({error})") from None
    finally:
        csv.field_size_limit(before)


def _row_path(log: Log, row: Row) -> LoggedPath:
    """A row of JSON lines or CSV; every row has the columns of the first."""
    if log.chosen is None:
        log.chosen = "columns"
        _choose_columns(log, row)
    missing = next((column for column in log.columns.values() if column not in row), None)
    if missing is not None:
        raise UsageError(f"it has no {missing!r}; every row has the same columns")
    values = {name: _filled(row[column]) for name, column in log.columns.items()}
    question, text = as_text("question", values.get("question")), values.get("text")
    if question is None:
        raise UsageError("its question has no id")
    if not isinstance(text, str | None):
        raise UsageError(f"text is {text!r:.40}; it must be text")
    return LoggedPath(
        question,
        _count("path", values.get("path")),
        text,
        tokens=_count("tokens", values.get("tokens")),
        cut=values.get("finish") in ("length", "max_tokens"),
        logprobs=_candidates(values.get("logprobs")),
        **{name: as_text(name, values.get(name)) for name in ("answer", "gold", "model")},
    )


def _choose_columns(log: Log, row: Row) -> None:
    """From the first row: the columns that were mapped, else the first that it has of each."""
    found = {name: next((one for one in places if one in row), None) for name, places in COLUMNS.items()}
    columns = {name: column for name, column in (found | dict(log.columns)).items() if column is not None}
    has = f"it has {', '.join(map(str, row))[:200] or 'nothing'}"
    unknown = next((column for column in columns.values() if column not in row), None)
    if unknown is not None:
        raise UsageError(f"no column {unknown!r}; {has}")
    if "question" not in columns or not columns.keys() & {"text", "answer"}:
        raise UsageError(f"a path needs a question's id and a text or an answer; {has}: name columns with --map")
    log.columns = columns
    log.note("columns: " + ", ".join(name if name == one else f"{name}={one}" for name, one in columns.items()))
    unread = [str(name) for name in row if name not in columns.values()]
    if unread:
        log.note(f"columns that were not read: {', '.join(unread)[:200]}")


def _filled(value: Any) -> Any:
    """The value of a cell; None for empty ones and NaN."""
    empty = (isinstance(value, str) and not value.strip()) or (isinstance(value, float) and isnan(value))
    return None if empty else value


def _count(name: str, value: Any) -> int | None:
    """A whole number, also as text or as 12.0; a path's number and its tokens are 32 bits wide in a pool."""
    if value is None:
        return None
    with suppress(ValueError, TypeError, OverflowError):
        number = float(value)
        if not isinstance(value, bool) and 0 <= number < 1 << 31 and number == int(number):
            return int(number)
    raise UsageError(f"{name} is {value!r:.40}; it must be a whole number")


def _candidates(value: Any) -> list[list[float]] | None:
    """Log-probabilities of every token's candidates, from OpenAI's form."""
    if value is None:
        return None
    with suppress(AttributeError, KeyError, TypeError, ValueError):
        content = value["content"] if isinstance(value, dict) else value
        return _streamed([(token.get("token"), [one["logprob"] for one in token["top_logprobs"]]) for token in content])
    raise UsageError('logprobs must be as OpenAI sends them: {"content": [{"top_logprobs": [{"logprob": …}]}]}')


def _streamed(tokens: list[tuple[str | None, list[Any]]]) -> list[list[float]]:
    """Candidates by token, without the end of the text, which llama.cpp sends at the end of a whole reply only."""
    last = -1 if tokens and tokens[-1][0] == "" else None
    return [[float(value) for value in values] for _, values in tokens[:last]]


# -- lm-evaluation-harness


def _harness_paths(log: Log, row: Row) -> Iterator[LoggedPath]:
    """A row holds all paths of a question under one filter: only the rows of the file's first filter are read."""
    name = f"{row.get('filter')!s:.80}"
    if log.chosen is None:
        log.chosen = name
        log.note(f"the rows of the filter {name}")
    if name != log.chosen:
        log.note(f"not the rows of the filter {name}, which have the same paths")
        return
    responses = row.get("resps")
    texts = responses[0] if isinstance(responses, list) and len(responses) == 1 else None
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise UsageError("resps holds no generated texts; only tasks of type generate_until can be imported")
    gold = as_text("target", row.get("target"))
    if gold is not None:  # of many tasks it is a worked solution
        gold = extract_or_abstain(log.judge, gold)[0] or gold
    filtered = row.get("filtered_resps")
    answers: list[Any] = [None] * len(texts)
    if isinstance(filtered, list) and len(filtered) == len(texts) > 1 and filtered != texts:
        answers = [None if one == "[invalid]" else as_text("filtered_resps", one) for one in filtered]
    for number, (text, answer) in enumerate(zip(texts, answers, strict=True)):
        yield LoggedPath(str(row["doc_id"]), number, text, answer, gold)


# -- Inspect


_ZIP: Final = b"PK\x03\x04"
_MEMBER: Final = re.compile(r"samples/(.+)_epoch_(\d{1,9})\.json", re.DOTALL)


def _inspect_log(log: Log) -> Iterator[LoggedPath]:
    """A zip file with a member per sample, or one JSON value."""
    try:
        import inspect_ai.log
    except ImportError:
        raise UsageError("Inspect's logs are read by inspect_ai: pip install 'sureenough[inspect]'") from None
    reading: Any = inspect_ai.log
    file, zipped = str(log.file), _head(log.file).startswith(_ZIP)
    if not zipped and log.file.stat().st_size > LARGEST_JSON:
        raise UsageError(
            f"it has more than {LARGEST_JSON >> 20} MiB: `inspect log convert --to eval` makes a log that can be read "
            "piece by piece"
        )
    try:
        header = reading.read_eval_log(file, header_only=zipped, format="eval" if zipped else "json")
        if not zipped:
            yield from _inspect_paths(log, header, header.samples or ())
        for samples in _batches(log.file) if zipped else ():
            without = {"messages", "events", "store"}
            decoded = reading.read_eval_log_samples_by_id(file, samples, format="eval", exclude_fields=without)
            yield from _inspect_paths(log, header, decoded)
    except SureEnoughError:
        raise
    except Exception as error:  # whatever a damaged file makes zipfile, inspect_ai and what they use raise
        raise UsageError(f"it is not a whole log of Inspect ({first_line(error)}); copy it again") from None


def _batches(file: Path) -> Iterator[list[tuple[str, int]]]:
    """Ids and epochs of the samples in a log, some megabytes at a time; of two with one name the later counts."""
    with zipfile.ZipFile(file) as archive:
        sizes = {one.filename: one.file_size for one in archive.infolist()}
    batch: list[tuple[str, int]] = []
    total = 0
    for name, size in sizes.items():
        member = _MEMBER.fullmatch(name)
        if member is None:
            continue
        if size > LONGEST:
            raise UsageError(f"{name!r:.100}: it has more than {LONGEST >> 20} MiB")
        if batch and total + size > BATCH:
            yield batch
            batch, total = [], 0
        batch.append((member[1], int(member[2])))
        total += size
    if batch:
        yield batch


def _inspect_paths(log: Log, header: Any, samples: Iterable[Any]) -> Iterator[LoggedPath]:
    log.dataset = header.eval.task
    if header.status != "success":
        log.note(f"the run's status is {header.status}: paths may be missing")
    if header.results is not None and header.results.early_stopping is not None:
        log.note("the run stopped early: what other rules would have done with the skipped epochs cannot be told")
    for sample in samples:
        if sample.error is not None:
            log.note("epochs that ended with an error, left out", 1)
            continue
        yield _inspect_path(log, header.eval.model, sample)


def _inspect_path(log: Log, model: str, sample: Any) -> LoggedPath:
    targets = [sample.target] if isinstance(sample.target, str) else list(sample.target)
    if len(targets) > 1:
        log.note("questions have several targets: the first counts as gold")
    usage = sample.model_usage.get(model) or sample.output.usage
    choice = next(iter(sample.output.choices), None)
    content = choice.logprobs.content if choice is not None and choice.logprobs is not None else []
    log.place = f"sample {sample.id!r:.80}, epoch {sample.epoch}"
    return LoggedPath(
        str(sample.id),
        sample.epoch,
        sample.output.completion,
        scored_answer(sample.scores or {}, log.judge),
        next(iter(filter(None, targets)), None),
        None if usage is None else usage.output_tokens,
        sample.output.stop_reason == "max_tokens",
        _streamed([(token.token, [one.logprob for one in token.top_logprobs or ()]) for token in content]),
        model,
        sample.input if isinstance(sample.input, str) else None,
    )


def scored_answer(scores: Mapping[str, Any], judge: Judge) -> str | None:
    """The answer that one of Inspect's scorers found in a completion: the first that found one.

    Some scorers give the whole completion as the answer: it is read as any text of a model, and of several lines
    nothing else counts.
    """
    for score in scores.values():
        answer = score.answer.strip() if isinstance(score.answer, str) else ""
        read = extract_or_abstain(judge, answer)[0] or ("" if "\n" in answer else answer)
        if read:
            return read
    return None
