"""inspect_ai: as many epochs as there are paths, reduced by mode; the vote is over scores, not over answers."""

from __future__ import annotations

import os
import tempfile

from inspect_ai import Epochs, Task, eval
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import GenerateConfig, get_model
from inspect_ai.scorer import pattern
from inspect_ai.solver import generate
from job import BOXED, Job, emit, timed

job = Job.read()
os.environ.update(RECORDED_API_KEY="none", RECORDED_BASE_URL=f"{job.url}/v1", INSPECT_DISPLAY="none")
samples = [Sample(input=row["question"], target=row["gold"], id=row["id"]) for row in job.questions]
task = Task(
    dataset=MemoryDataset(samples), solver=generate(), scorer=pattern(BOXED), epochs=Epochs(job.paths, "mode"),
    config=GenerateConfig(temperature=0.6, max_connections=job.paths),
)  # fmt: skip
with tempfile.TemporaryDirectory() as folder:
    with timed():
        [log] = eval(task, model=get_model(f"openai-api/recorded/{job.model}"), log_dir=folder, log_level="warning")
    if log.status != "success" or not log.reductions:
        raise SystemExit(f"inspect_ai: {log.status}: {log.error}")
    for score in log.reductions[0].samples:
        emit(id=score.sample_id, answer=None, right=score.value in ("C", 1.0))
    used = [usage.output_tokens for usage in log.stats.model_usage.values()]
    emit(claimed_total=sum(used))
