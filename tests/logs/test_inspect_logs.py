"""Logs that Inspect writes itself: of real runs of the built-in model, and of its mock model."""

from __future__ import annotations

import gc
import io
import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from inspect_ai import Epochs, Task
from inspect_ai import eval as run_inspect
from inspect_ai.dataset import Sample
from inspect_ai.log import EvalLog, read_eval_log
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import match
from inspect_ai.solver import generate

import sureenough as se
from sureenough.inspect import EarlyStopping, vote
from tests.processes import printed

pytestmark = pytest.mark.filterwarnings("default")  # inspect_ai and what it uses have their own
QUESTIONS = "id,question,gold\na,Compute 12+7.,19\nb/..,Compute 125*8.,1000\nc,Compute 19*21+4.,403\n"
EPOCHS = 6
SAMPLING = ["--max-tokens", "600", "--temperature", "0.6", "--top-p", "0.95", "--logprobs", "--top-logprobs", "20"]


@pytest.fixture(autouse=True)
def collected() -> Iterator[None]:
    """Streams that Inspect leaves open warn here, where warnings are allowed, and not in a later test."""
    yield
    gc.collect()


def imported(log: Path, folder: Path) -> se.Pool:
    [pool] = se.import_pools([log], folder / "pool.parquet")
    return pool


def inspect_eval(folder: Path, url: str, *words: str) -> Path:
    """The log of `inspect eval`, made by its command line."""
    (folder / "questions.csv").write_text(QUESTIONS)
    shutil.copy(Path(__file__).with_name("inspect_task.py"), folder)
    command: list[str | Path] = [Path(sys.executable).with_name("inspect"), "eval", "inspect_task.py", "--model",
               "openai-api/ours/built-in", "-T", f"questions={folder / 'questions.csv'}", "-T", f"epochs={EPOCHS}",
               *SAMPLING, *words, "--log-dir", folder / "logs", "--display", "none"]  # fmt: skip
    environment = os.environ | {"OURS_BASE_URL": url, "OURS_API_KEY": "none"}
    done = subprocess.run(
        command, env=environment, cwd=folder, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    [log] = (folder / "logs").iterdir()
    return log


@pytest.fixture(scope="module")
def real(served: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return inspect_eval(tmp_path_factory.mktemp("real"), served)


def test_a_real_log_holds_what_we_record(real: Path, served: str, tmp_path: Path) -> None:
    """The same seeds on the same server: the same answers, tokens and confidence, and so the same votes."""
    printed("import", real, "-o", tmp_path / "theirs.parquet")
    printed("record", real.parents[1] / "questions.csv", "-o", tmp_path / "ours.parquet", "--url", served, "--model",
            "built-in", "--paths", str(EPOCHS), "--template", "{question}", "--max-path-tokens", "600")  # fmt: skip
    theirs, ours = se.Pool(tmp_path / "theirs.parquet"), se.Pool(tmp_path / "ours.parquet")
    for their, our in zip(theirs, ours, strict=True):
        assert (their.id, their.gold, len(their.paths)) == (our.id, our.gold, EPOCHS)
        for logged, recorded in zip(their.paths, our.paths, strict=True):
            assert (logged.answer, logged.text, logged.tokens) == (recorded.answer, recorded.text, recorded.tokens)
            # What else a batch holds changes the last digit.
            np.testing.assert_allclose(logged.peak, recorded.peak, rtol=0.003)
            np.testing.assert_allclose(logged.conf, recorded.conf, rtol=0.003)
    tables = [
        printed("replay", pool.name, "-s", "sc ac sure", "--csv", "--window", "8").replace(pool.name, "")
        for pool in (theirs, ours)
    ]
    assert tables[0] == tables[1]


def test_both_forms_of_a_log_are_the_same_pool_and_are_replayed_on_the_fly(real: Path, tmp_path: Path) -> None:
    convert: list[str | Path] = [Path(sys.executable).with_name("inspect"), "log", "convert", "--to", "json"]
    convert += ["--output-dir", tmp_path, real]
    subprocess.run(convert, check=True, capture_output=True, timeout=100)
    [converted] = tmp_path.glob("*.json")
    pools = [list(pool) for pool in se.import_pools([real, converted], tmp_path / "pools")]
    for one, other in zip(*pools, strict=True):
        assert [(path.answer, path.tokens, path.text) for path in one.paths] == [
            (path.answer, path.tokens, path.text) for path in other.paths
        ]
    assert "strategy  accuracy %" in printed("replay", real, "-s", "sc")


def test_a_real_run_stops_early_at_every_width(served: str, tmp_path: Path) -> None:
    answers = {}
    for width in ("1", "16"):
        (tmp_path / width).mkdir()
        log = inspect_eval(tmp_path / width, served, "-T", "stop=true", "--max-samples", width)
        results = read_eval_log(str(log), header_only=True).results
        assert results is not None
        assert results.early_stopping is not None
        summary = results.early_stopping.metadata
        answers[width] = (
            summary["answers"],
            summary["epochs_counted"],
            results.scores[0].metrics["accuracy"].value,
        )
        assert summary["epochs_run"] + summary["epochs_skipped"] == 3 * EPOCHS
        assert summary["epochs_skipped"] > 0 or width != "1", "at 16, nearly all have begun"
    assert answers["1"] == answers["16"]
    assert (
        "the run stopped early" in se.import_pools([log], tmp_path / "p.parquet")[0].info.more["imported"]["notes"][0]
    )


# -- hostile logs


def cut(log: bytes) -> bytes:
    return log[: len(log) // 2]


def rewritten(change: Callable[[str, Any], Any]) -> Callable[[bytes], bytes]:
    """A log with other members."""

    def damage(log: bytes) -> bytes:
        whole = read_eval_log(io.BytesIO(log), format="eval").model_dump(mode="json")
        samples = {f"samples/{one['id']}_epoch_{one['epoch']}.json": one for one in whole.pop("samples")}
        written = io.BytesIO()
        with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in ({"header.json": whole} | samples).items():
                changed = change(name, content)
                if changed is not None:
                    archive.writestr(name, changed if isinstance(changed, bytes) else json.dumps(changed))
        return written.getvalue()

    return damage


def unchanged(name: str, content: Any) -> Any:
    return content


def wrong_types(name: str, content: Any) -> Any:
    return content | {"output": 5} if name.startswith("samples/") else content


def no_header(name: str, content: Any) -> Any:
    return None if name == "header.json" else content


def no_samples(name: str, content: Any) -> Any:
    return None if name.startswith("samples/") else content


def large(name: str, content: Any) -> Any:
    return content if not name.startswith("samples/") else b'"' + b" " * (1 << 26) + b'"'


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (cut, "is not a whole log of Inspect ("),
        (rewritten(wrong_types), "is not a whole log of Inspect ("),
        (rewritten(no_header), "is not a whole log of Inspect ("),
        (rewritten(no_samples), "holds no paths"),
        (rewritten(large), "it has more than 32 MiB"),
    ],
)
def test_damaged_logs_are_refused_in_a_sentence(
    damage: Callable[[bytes], bytes], says: str, real: Path, tmp_path: Path
) -> None:
    (tmp_path / "log.eval").write_bytes(damage(real.read_bytes()))
    with pytest.raises(se.UsageError) as refusal:
        se.import_pools([tmp_path / "log.eval"], tmp_path / "pool.parquet")
    message = str(refusal.value)
    assert says in message
    assert len(message) < 500
    assert [file.name for file in tmp_path.iterdir()] == ["log.eval"]


def test_the_logs_above_are_logs_otherwise(real: Path, tmp_path: Path) -> None:
    (tmp_path / "log.eval").write_bytes(rewritten(unchanged)(real.read_bytes()))
    assert imported(tmp_path / "log.eval", tmp_path).rows == 18


# -- early stopping with the mock model


def answered(text: str) -> ModelOutput:
    output = ModelOutput.from_content("mockllm/model", text)
    output.usage = ModelUsage(input_tokens=5, output_tokens=7, total_tokens=12)  # else it fetches a vocabulary
    return output


def mock_eval(
    answers: Callable[[str, int], str], folder: Path, width: int, strategy: str = "sure", **options: Any
) -> tuple[EvalLog, list[tuple[str, int]]]:
    """A run of three questions and 16 epochs; its log, and which epochs ran."""
    asked: dict[str, int] = {}

    def answer(messages: list[Any], *_: Any) -> ModelOutput:
        question = messages[-1].text
        asked[question] = asked.get(question, 0) + 1
        return answered(answers(question, asked[question]))

    task = Task(
        dataset=[Sample(id=name, input=name, target="1") for name in "abc"], solver=generate(), scorer=match(),
        epochs=Epochs(16, vote(strategy, epochs=16)), early_stopping=EarlyStopping(strategy), fail_on_error=False,
    )  # fmt: skip
    model = get_model("mockllm/model", custom_outputs=answer)
    options |= {"max_samples": width, "max_connections": width, "display": "none", "log_dir": str(folder / str(width))}
    [log] = run_inspect(task, model=model, **options)
    assert log.status == "success", log.error
    return log, sorted((str(one.id), one.epoch) for one in log.samples or () if one.error is None)


def test_epochs_run_until_the_vote_is_settled(tmp_path: Path) -> None:
    log, ran = mock_eval(lambda question, n: f"so\n\\boxed{{{1 if question == 'a' else n // 3}}}", tmp_path, 1, "ac")
    epochs = {name: [epoch for one, epoch in ran if one == name] for name in "abc"}
    assert epochs["a"] == [1, 2, 3, 4], "ac stops at four of four"
    assert epochs["b"] == epochs["c"] == list(range(1, 17))
    assert log.results is not None
    assert log.results.early_stopping is not None
    stopping = log.results.early_stopping
    assert [(stop.id, stop.epoch) for stop in stopping.early_stops] == [("a", epoch) for epoch in range(5, 17)]
    assert stopping.manager == "sureenough ac"
    assert stopping.metadata["epochs_run"] == 36
    assert stopping.metadata["answers"] == {"a": "1", "b": "1", "c": "1"}
    [score] = log.results.scores
    assert (score.reducer, score.metrics["accuracy"].value) == ("vote", pytest.approx(1.0))


def test_errors_neither_vote_nor_block(tmp_path: Path) -> None:
    def fails(question: str, n: int) -> str:
        if question == "a" and n in (1, 3):
            raise RuntimeError("lost")
        return r"\boxed{1}"

    log, ran = mock_eval(fails, tmp_path, 1, "ac")
    assert [epoch for name, epoch in ran if name == "a"] == [2, 4, 5, 6]
    assert log.results is not None
    assert log.results.early_stopping is not None
    assert log.results.early_stopping.metadata["epochs_failed"] == 2


def test_the_voted_answer_does_not_depend_on_the_width(tmp_path: Path) -> None:
    def hard(question: str, n: int) -> str:
        return f"so\n\\boxed{{{hash((question, n)) % 3}}}"

    logs = [mock_eval(hard, tmp_path, width)[0] for width in (1, 5, 48)]
    summaries = [log.results.early_stopping.metadata for log in logs if log.results and log.results.early_stopping]
    assert [one["answers"] for one in summaries] == [summaries[0]["answers"]] * 3
    assert [one["epochs_counted"] for one in summaries] == [summaries[0]["epochs_counted"]] * 3


def test_a_log_without_samples_is_said_to_prevent_it(tmp_path: Path) -> None:
    log, _ = mock_eval(lambda question, n: r"\boxed{1}", tmp_path, 1, "ac", log_samples=False)
    assert log.results is not None
    assert log.results.early_stopping is not None
    assert "the log keeps no samples" in str(log.results.early_stopping.metadata["notes"])
    assert log.results.early_stopping.metadata["epochs_run"] == 48


@pytest.mark.parametrize(("strategy", "says"), [("ddc", "ddc reads confidence"), ("phi+sc", "searches for paths")])
def test_strategies_that_need_more_than_votes_are_refused(strategy: str, says: str) -> None:
    with pytest.raises(se.UsageError, match=says):
        EarlyStopping(strategy)
