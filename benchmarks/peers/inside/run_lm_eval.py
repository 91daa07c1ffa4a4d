"""lm-evaluation-harness: a task with `repeats` and the filter majority_vote, like its own self-consistency task."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from job import BOXED, Job, emit, timed
from lm_eval import simple_evaluate
from lm_eval.tasks import TaskManager


def task(job: Job, folder: Path) -> dict[str, Any]:
    """The questions as a task; JSON is YAML."""
    rows = [json.dumps({name: row[name] for name in ("id", "question", "gold")}) for row in job.questions]
    (folder / "questions.jsonl").write_text("\n".join(rows) + "\n")
    pattern = {"function": "regex", "regex_pattern": BOXED, "group_select": -1}
    return {
        "task": "recorded",
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": str(folder / "questions.jsonl")}},
        "test_split": "test",
        "output_type": "generate_until",
        "doc_to_text": "question",
        "doc_to_target": "gold",
        "repeats": job.paths,
        "generation_kwargs": {"until": [], "do_sample": True, "temperature": 0.6, "max_gen_toks": 2048},
        "filter_list": [
            {"name": "maj", "filter": [pattern, {"function": "majority_vote"}, {"function": "take_first"}]}
        ],
        "metric_list": [{"metric": "exact_match"}],
    }


def evaluate(job: Job, folder: Path) -> dict[str, Any]:
    """All questions in one evaluation."""
    (folder / "recorded.yaml").write_text(json.dumps(task(job, folder)))
    arguments = {
        "model": job.model,
        "base_url": f"{job.url}/v1/chat/completions",
        "num_concurrent": job.paths,
        "tokenized_requests": False,
        "tokenizer_backend": None,
    }
    evaluated: dict[str, Any] = simple_evaluate(
        "local-chat-completions",
        arguments,
        ["recorded"],
        task_manager=TaskManager(include_path=str(folder)),
        apply_chat_template=True,
        bootstrap_iters=0,
    )
    return evaluated


os.environ.setdefault("OPENAI_API_KEY", "none")
job = Job.read()
with tempfile.TemporaryDirectory() as name:
    os.environ["HF_HOME"] = name
    with timed():
        result = evaluate(job, Path(name))
    for sample in result["samples"]["recorded"]:
        answer = sample["filtered_resps"][0]
        emit(id=sample["doc"]["id"], answer=answer, right=bool(sample["exact_match"]))
