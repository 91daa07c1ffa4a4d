"""A log that lm-evaluation-harness writes itself, of the built-in model on a local task."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

import sureenough as se
from sureenough.core.events import path_seed
from tests.processes import printed

HARNESS = os.environ.get("SUREENOUGH_HARNESS", "")
QUESTIONS = {"a": ("Compute 12+7.", "19"), "b": ("Compute 125*8.", "1000")}
REPEATS = 3


@pytest.mark.skipif(not HARNESS, reason="lm-evaluation-harness is not installed: .ci/logs runs this test")
def test_a_real_log_becomes_a_pool(served: str, tmp_path: Path) -> None:
    """All repeats of the harness have one seed, here that of our path 0: so all are the path that we record first."""
    rows = [json.dumps({"question": text, "gold": gold}) for text, gold in QUESTIONS.values()]
    (tmp_path / "questions.jsonl").write_text("\n".join(rows) + "\n")
    task = {
        "task": "sums", "dataset_path": "json", "test_split": "test",
        "dataset_kwargs": {"data_files": {"test": str(tmp_path / "questions.jsonl")}},
        "output_type": "generate_until", "doc_to_text": "question", "doc_to_target": "gold", "repeats": REPEATS,
        "generation_kwargs": {"until": [], "do_sample": True, "temperature": 0.6, "top_p": 0.95, "max_gen_toks": 600},
        "filter_list": [
            {"name": name, "filter": [{"function": "regex", "regex_pattern": pattern}, *last]}
            for name, pattern, last in [
                ("boxed", r"boxed\{([^}]*)\}", []),
                ("voted", r"(\d+)", [{"function": "majority_vote"}, {"function": "take_first"}]),
            ]
        ],
        "metric_list": [{"metric": "exact_match"}],
    }  # fmt: skip
    (tmp_path / "sums.yaml").write_text(json.dumps(task))  # JSON is YAML
    model = f"model=built-in,base_url={served}/chat/completions,num_concurrent=2,tokenized_requests=False,"
    model += f"tokenizer_backend=None,seed={path_seed(0, 0)}"
    command: list[str | Path] = [HARNESS, "--model", "local-chat-completions", "--model_args", model, "--tasks", "sums"]
    command += ["--include_path", tmp_path, "--apply_chat_template", "--log_samples", "--output_path", tmp_path / "out"]
    environment = os.environ | {"OPENAI_API_KEY": "none", "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "hub")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=150, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    [log] = (tmp_path / "out").rglob("samples_*.jsonl")
    [pool] = se.import_pools([log], tmp_path / "theirs.parquet")
    printed("record", tmp_path / "questions.jsonl", "-o", tmp_path / "ours.parquet", "--url", served, "--model",
            "built-in", "--paths", "1", "--template", "{question}", "--max-path-tokens", "600")  # fmt: skip
    for their, our in zip(pool, se.Pool(tmp_path / "ours.parquet"), strict=True):
        assert [path.text for path in their.paths] == [our.paths[0].text] * REPEATS
        assert [path.answer for path in their.paths] == [our.paths[0].answer] * REPEATS
        assert their.gold == our.gold
    assert "strategy  accuracy %" in printed("replay", log, "-s", "sc ac")
