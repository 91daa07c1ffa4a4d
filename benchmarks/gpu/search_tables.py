"""The runs of `search_vllm.py` as tables: each run once, and only runs that were made under the same terms."""

from __future__ import annotations

import json
import random
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import fmean

import numpy as np

from sureenough.bench.experiment import Inputs
from sureenough.bench.live import LiveRun, grade_live, read_runs
from sureenough.bench.paper import EXPERIMENTS
from sureenough.bench.result import grouped
from sureenough.bench.score import intervals
from sureenough.cli.bench import tables as printed
from sureenough.core.options import RunOptions
from sureenough.datasets.load import load
from sureenough.drivers.record import RecordQuestion
from sureenough.errors import SureEnoughError, UsageError
from sureenough.pools.journal import changed_terms, holds_lines, read_lines

Questions = dict[str, RecordQuestion]
OTHER_TABLE = "these runs do not belong in one table; name their folders in commands of their own"
SAMPLED_ALIKE = ("template", "temperature", "top_p", "max_path_tokens", "max_tokens")
DRAWS = 400
"""Of a few plain paths, from those of each run of `sc`."""


def show(folders: list[Path], keep: bool = False, dataset: str | None = None) -> None:
    """Print tables, or one sentence on standard error, with exit code 2, that says why there are none."""
    try:
        questions = [] if dataset is None else load(dataset).record_questions()
        print_tables(folders, keep, {question.id: question for question in questions})
        sys.stdout.flush()
    except BrokenPipeError:  # `| head` has read enough, and Python must not complain about it on exit
        sys.stderr.close()
    except OSError as error:
        sys.exit(_refusal(f"{error.filename}: {error.strerror}"))
    except SureEnoughError as error:
        sys.exit(_refusal(str(error)))


def _refusal(sentence: str) -> int:
    print(sentence, file=sys.stderr)
    return 2


def print_tables(folders: list[Path], keep: bool, questions: Questions) -> None:
    """The table of all runs in these folders; `keep` it for `bench --report`, too.

    With the questions, whose right answers runs do not have, also how many single paths are right, and whether a vote
    over as many plain paths would do.
    """
    files = [file for folder in folders for file in _files(folder)]
    _check_plans(files)
    runs = one_run_per_key(dict.fromkeys(files))
    for model, strategy in dict.fromkeys((run.model, run.strategy) for run in runs):
        own = [run for run in runs if (run.model, run.strategy) == (model, strategy)]
        asked = {run.question for run in own}
        plain = [run for run in runs if (run.model, run.strategy) == (model, "sc") and run.question in asked]
        beside = f"; sc on {total(plain, questions)}" if plain and strategy != "sc" else ""
        print(f"{model}, {strategy}: {total(own, questions)}{beside}")
        if 0 < own[0].outcome.get("paths", 0) < min((run.outcome.get("counted", 0) for run in plain), default=0):
            print(as_many_plain_paths(own, plain, questions), end="")
    if runs:
        result = EXPERIMENTS["search"].run(Inputs(live_runs=runs))
        if keep:
            (folders[0] / "results").mkdir(exist_ok=True)
            (folders[0] / "results" / "search.json").write_bytes(result.to_json())
        print(printed(result, [f"`sureenough bench --report {folders[0]}` writes a page"] if keep else []), flush=True)


def _files(folder: Path) -> list[Path]:
    """The files of runs in a folder; one that has none is refused."""
    files = sorted(folder.glob("*/live/runs.jsonl"))
    if not any(map(holds_lines, files)):
        raise UsageError(f"no runs in {folder}; name a folder that `search_vllm.py run` wrote with --out")
    return files


def _check_plans(files: Iterable[Path]) -> None:
    """Paths of one table are sampled alike, as the plans beside their runs say."""
    first: dict[tuple[str, str], tuple[object, Path]] = {}
    for plan in (file.parents[1] / "plan.json" for file in files):
        for name, cell in _cells(plan).items():
            for setting in SAMPLED_ALIKE:
                value, other = first.setdefault((name, setting), (cell.get(setting), plan))
                if cell.get(setting) != value:
                    raise UsageError(f"{plan} has {setting} {cell.get(setting)}, and {other} {value}: {OTHER_TABLE}")


def _cells(plan: Path) -> dict[str, dict[str, object]]:
    try:
        cells = json.loads(plan.read_bytes())["cells"] if plan.exists() else {}
        return {name: dict(cell) for name, cell in cells.items()}
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise UsageError(f"{plan} is not the plan of a benchmark; leave its folder out") from None


def one_run_per_key(files: Iterable[Path]) -> list[LiveRun]:
    """The first run of every question, strategy and repeat; the same strategy under other terms is refused.

    `sc` comes first: the table shows differences to its first strategy.
    """
    runs: dict[object, LiveRun] = {}
    first_files: dict[tuple[str, str, str], Path] = {}
    for file in files:
        for run in read_runs(file):
            first = first_files.setdefault((run.dataset, run.model, run.strategy), file)
            if first != file:
                _check_terms(run, first, file)
            runs.setdefault(run.key, run)
    return sorted(runs.values(), key=lambda run: run.strategy != "sc")


def _check_terms(run: LiveRun, first: Path, other: Path) -> None:
    changed = changed_terms(_terms(other), _terms(first))
    if changed is not None:
        raise UsageError(f"{other} has {run.strategy} with {changed} as in {first}: {OTHER_TABLE}")


def _terms(file: Path) -> dict[str, object]:
    """The options under which the runs of a file were made, with the defaults of those that it does not name."""
    defaults = {name: option.default for name, option in RunOptions.fields().items()}
    begun_with: dict[str, object] = next((line["terms"] for _, line in read_lines(file)), {})
    return defaults | {name: value for name, value in begun_with.items() if value is not None}


def total(runs: Sequence[LiveRun], known: Questions) -> str:
    """How many runs of how many questions, how many right, how many of the counted paths had an answer, the tokens."""
    questions = len({(run.dataset, run.question) for run in runs})
    asked = f"{questions} questions" if questions == len(runs) else f"{len(runs)} runs of {questions} questions"
    right, tokens = sum(run.right is True for run in runs), sum(run.tokens["total"] for run in runs)
    counted = sum(run.outcome.get("counted", 0) for run in runs)
    silent = sum(run.outcome.get("abstained", 0) for run in runs)
    answers = f"{1 - silent / counted:.0%} of paths with an answer, " if counted else ""
    if counted and all(run.question in known and _gradable(run, known[run.question]) for run in runs):
        answers += f"{sum(_right_paths(run, known[run.question]) for run in runs) / counted:.1%} of paths right, "
    return f"{asked}, {right} right, {answers}{tokens:,} tokens ({tokens / len(runs):,.0f} per question)"


def as_many_plain_paths(runs: Sequence[LiveRun], plain: Sequence[LiveRun], known: Questions) -> str:
    """A line with the difference to votes over as many paths, drawn from those of `sc`; none without right answers."""
    if not all(run.question in known and _gradable(run, known[run.question]) for run in plain):
        return ""
    width, draws = int(runs[0].outcome["paths"]), random.Random(0)
    own, votes = _by_question(runs), {}
    for question, of_plain in _by_question(plain).items():
        votes[question] = fmean(_right_draws(run, known[question], width, draws) for run in of_plain)
    differences = [fmean(run.right is True for run in own[question]) - share for question, share in votes.items()]
    (bounds,) = intervals(np.array(differences)[:, None], seed=0)
    points, low, high = (f"{round(100 * one, 1) + 0.0:+.1f}" for one in (fmean(differences), *bounds))  # never -0.0
    tokens = fmean(run.tokens["total"] * width / run.outcome["counted"] for run in plain)
    share = f"{fmean(votes.values()):.1%} and take {tokens:,.0f} tokens per question"
    return f"    {points} points [{low}, {high}] to votes over {width} plain paths, which are right in {share}\n"


def _by_question(runs: Sequence[LiveRun]) -> dict[str, list[LiveRun]]:
    return grouped(runs, lambda run: run.question)


def _right_draws(run: LiveRun, question: RecordQuestion, width: int, draws: random.Random) -> float:
    """The share of draws of so many paths of a run whose vote is right; the answer drawn first wins a tie."""
    paths: list[str | None] = [None] * run.outcome["abstained"]
    for answer, votes in run.outcome["votes"].items():
        paths += [answer] * int(votes)
    right = {answer: grade_live(question, answer) is True for answer in run.outcome["votes"]}
    drawn = ([path for path in draws.sample(paths, width) if path is not None] for _ in range(DRAWS))
    return fmean(any(right[leader] for leader, _ in Counter(answers).most_common(1)) for answers in drawn)


def _gradable(run: LiveRun, question: RecordQuestion) -> bool:
    """Whether every path had one vote, however sure it was, and this is the question that was asked, by its grade."""
    out = run.outcome
    votes_are_paths = sum(out.get("votes", {}).values()) + out.get("abstained", 0) == out.get("counted")
    return bool(votes_are_paths) and run.right is not None and grade_live(question, out["answer"]) == run.right


def _right_paths(run: LiveRun, question: RecordQuestion) -> float:
    return sum(float(votes) for answer, votes in run.outcome["votes"].items() if grade_live(question, answer))
