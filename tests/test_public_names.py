"""What callers rely on: names, signatures, and the ten lines of the README."""

from __future__ import annotations

import inspect
import json
import pkgutil
from typing import Any, get_type_hints

import numpy as np
import pytest

import sureenough as se
from sureenough.api import AskKeywords
from sureenough.core.options import ReplayKeywords, RunKeywords, RunOptions


def test_every_export_is_there_and_documented() -> None:
    for name in se.__all__:
        thing = getattr(se, name)
        assert isinstance(thing, dict) or inspect.getdoc(thing), name


def test_no_export_has_the_name_of_a_module() -> None:
    """Importing the module would replace the export."""
    assert {module.name for module in pkgutil.iter_modules(se.__path__)} & set(se.__all__) == set()


def test_a_name_that_is_not_there() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        se.nothing  # type: ignore[attr-defined]  # noqa: B018
    assert dir(se) == sorted(se.__all__)


@pytest.mark.parametrize(
    ("call", "paths", "parallel"), [(se.ask, 64, 16), (se.aask, 64, 16), (se.replay, None, 1), (se.compare, None, 1)]
)
def test_signatures_show_every_run_option(call: Any, paths: int | None, parallel: int) -> None:
    shown = inspect.signature(call).parameters
    assert RunOptions.fields(live=call is not se.compare).keys() <= shown.keys()
    assert (shown["paths"].default, shown["parallel"].default) == (paths, parallel)


def test_the_types_of_keywords_are_those_of_the_options() -> None:
    types = get_type_hints(RunOptions)
    assert get_type_hints(RunKeywords) == types
    assert get_type_hints(ReplayKeywords) == {name: types[name] for name in RunOptions.fields(live=False)}
    keywords = [name for name, one in inspect.signature(se.ask).parameters.items() if one.kind is one.KEYWORD_ONLY]
    assert get_type_hints(AskKeywords).keys() == set(keywords)


def test_unknown_keywords_are_refused_with_the_known_ones() -> None:
    with pytest.raises(se.UsageError, match="unknown option 'path'; known: paths, window"):
        se.replay([se.RecordedPath("a", [1], [1])], "sc", path=3)  # type: ignore[call-arg]
    with pytest.raises(se.UsageError, match=r"unknown option 'deadline'; known: paths, .*, hurry, repeats"):
        se.compare("pool.parquet", deadline=3)  # type: ignore[call-arg]
    with pytest.raises(se.UsageError, match=r"unknown option 'kinds'; known: paths.* template, kind, extract"):
        se.ask("?", kinds="math")  # type: ignore[call-arg]


def test_an_outcome_has_the_promised_fields() -> None:
    paths = [se.RecordedPath(answer="42", peak=[0.9] * 8, conf=[12.0] * 8) for _ in range(20)]
    out = se.replay(paths, "ddc:warmup=16,weight=mean", paths=64, window=4, parallel=1)
    assert (out.answer, out.reason) == ("42", "settled")
    assert out.votes == {"42": 16.0}
    assert (out.tokens.total, out.tokens.init, out.tokens.kept, out.tokens.pruned) == (128, 128, 0, 0)
    assert (out.tokens.discarded, out.tokens.failed, out.tokens.overrun) == (0, 0, 0)
    assert (out.steps, out.started, out.pruned) == (128, 16, 0)
    assert out.strategy == "ddc:warmup=16,weight=mean"
    assert any("20 paths are recorded, the budget was 64" in note for note in out.notes)


def test_answers_that_mean_the_same_are_one_candidate() -> None:
    answers = ("0.5", "7", "1/2", "", r"\frac{1}{2}", "7", None, " ")
    out = se.replay([se.RecordedPath(a, [0.5], [5.0]) for a in answers], "sc")
    assert out.votes == {"0.5": 3.0, "7": 2.0}
    assert out.answer == "0.5", "as the lowest-numbered path wrote it"
    assert out.abstained == 3, "an empty answer is none"


@pytest.mark.parametrize(
    ("recorded", "options", "says"),
    [
        ([], {}, "no paths to replay"),
        (["path"], {}, "RecordedPath objects, .* not str"),
        (object(), {}, "such as `question.paths`, not object"),
        *(([se.RecordedPath("a", [1], [1])], {"deadline": d}, "deadline is") for d in (-1, float("nan"), "1", True)),
        *(([se.RecordedPath("a", [1], [1])], {"paths": p}, "paths is") for p in ("5", [5], float("inf"), 6.5)),
        ([se.RecordedPath("a", [1], [1])], {"seed": -1}, "seed is -1"),
        ([se.RecordedPath("a", [1], [1])], {"strategy": "ddc"}, "ask for ddc:warmup=1"),
    ],
)
def test_what_cannot_be_replayed(recorded: list[se.RecordedPath], options: dict[str, object], says: str) -> None:
    with pytest.raises(se.UsageError, match=says):
        se.replay(recorded, **({"strategy": "sc"} | options))  # type: ignore[arg-type]


def test_a_deadline_of_nothing_is_over_at_once() -> None:
    out = se.replay([se.RecordedPath("a", [1], [1])], "sc", deadline=0)
    assert (out.reason, out.answer, out.tokens.total) == ("deadline", None, 0)


def test_numpy_integers_are_integers() -> None:
    paths = [se.RecordedPath("a", [0.5] * 4, [5.0] * 4)] * 20
    sizes: dict[str, Any] = {"paths": np.int64(20), "window": np.int32(2), "parallel": np.int8(2)}
    out = se.replay(paths, "ddc", max_tokens=np.int64(60), **sizes)  # type: ignore[arg-type]
    assert type(out.options.paths) is type(out.window) is type(out.options.parallel) is int
    json.dumps(out.to_json(), allow_nan=False)
