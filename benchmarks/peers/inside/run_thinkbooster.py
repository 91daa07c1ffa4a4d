"""ThinkBooster: its self-consistency and its online DeepConf over the OpenAI API."""

from __future__ import annotations

import sys
from typing import Any

from job import Job, boxed, emit, timed
from thinkbooster.generators.api import StepCandidateGeneratorThroughAPI
from thinkbooster.models.blackboxmodel_with_streaming import BlackboxModelWithStreaming
from thinkbooster.strategies.deepconf.strategy import StrategyDeepConf
from thinkbooster.strategies.strategy_self_consistency import StrategySelfConsistency


def strategy(job: Job) -> Any:
    """The strategy that a system's name ends in."""
    model = BlackboxModelWithStreaming(
        openai_api_key="none", model_path=job.model, base_url=f"{job.url}/v1", supports_logprobs=True
    )
    if job.system.endswith("sc"):
        sys.modules["tiktoken"] = None  # type: ignore[assignment]  # else it fetches a vocabulary to count tokens with
        generator = StepCandidateGeneratorThroughAPI(model, max_new_tokens=2048, supports_logprobs=False)
        return StrategySelfConsistency(generator, num_paths=job.paths)
    return StrategyDeepConf(
        model,
        mode="online",
        budget=job.paths,
        window_size=job.window,
        temperature=0.6,
        top_p=0.95,
        max_tokens=2048,
        top_logprobs=20,
        filter_method="threshold",
        warmup_traces=job.warmup,
        total_budget=job.paths,
        confidence_percentile=10,
        n_threads=job.paths,
    )


job = Job.read()
method = strategy(job)
with timed():
    for question in job.questions:
        [result] = method.generate_trajectories_batch([[{"role": "user", "content": question["question"]}]])
        tokens = sum(trace["num_tokens"] for trace in result.get("all_traces") or [])
        answer = boxed(result["trajectory"]) or result["extracted_answer"]
        emit(id=question["id"], answer=answer, claimed=None if job.system.endswith("sc") else tokens)
