"""deepconf: its online mode on recorded paths.

It runs inside vLLM on a CUDA device. A stand-in for vLLM returns recorded paths here, and cuts each where its logits
processor forces the end token. Thresholds, cuts, filters and votes are deepconf's code.
"""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

from job import Job, emit, timed

END = -1


class SamplingParams(SimpleNamespace):
    """What deepconf sets on a request."""

    extra_args: dict[str, Any] | None = None


def stand_ins() -> None:
    """Modules with the names that deepconf imports from vLLM, torch and transformers."""
    names = {
        "vllm": {"LLM": object, "SamplingParams": SamplingParams},
        "vllm.v1": {}, "vllm.v1.sample": {},
        "vllm.v1.sample.logits_processor": {"AdapterLogitsProcessor": object, "RequestLogitsProcessor": object},
        "vllm.config": {"VllmConfig": object},
        "transformers": {"AutoTokenizer": object},
        "torch": {"Tensor": object, "device": object},
    }  # fmt: skip
    for name, contents in names.items():
        module = sys.modules[name] = ModuleType(name)
        module.__dict__.update(contents)


stand_ins()

from deepconf import utils  # noqa: E402
from deepconf.processors import ConfPerReqLogitsProcessor  # noqa: E402
from deepconf.wrapper import DeepThinkLLM  # noqa: E402


class Logits(list[float]):
    """Logits of which deepconf's processor reads the recorded confidence; it writes its verdict into them."""

    def __setitem__(self, index: Any, value: Any) -> None:
        self.ended = True

    def __getitem__(self, index: Any) -> Any:
        return SimpleNamespace(item=lambda: 0.0)


class RecordedConfidence(ConfPerReqLogitsProcessor):  # type: ignore[misc]
    """Its processor with the recorded confidence of the top 20 in place of a softmax over logits."""

    def compute_conf(self, logits: Logits) -> float:
        return list.__getitem__(logits, 0)


class RecordedLLM:
    """Stands in for vLLM: the n-th request gets the n-th path."""

    def __init__(self, paths: list[dict[str, Any]]) -> None:
        self.paths = iter(paths)

    def generate(self, prompts: list[str], params: list[SamplingParams]) -> list[SimpleNamespace]:
        """One output per request."""
        return [SimpleNamespace(outputs=[self.output(next(self.paths), request)]) for request in params]

    def output(self, path: dict[str, Any], request: SamplingParams) -> SimpleNamespace:
        """A path up to where it ends, or up to the end token that the processor forces."""
        text, conf = path["text"], path["conf"]
        if request.extra_args:
            named = request.extra_args
            names = ("conf_threshold", "eos_token_id", "conf_group_size", "conf_topk")
            processor = RecordedConfidence(*(named[name] for name in names))
            for place, value in enumerate(conf):
                logits = Logits([value])
                logits.ended = False
                if getattr(processor([], logits), "ended", False):
                    text, conf = text[:place], conf[: place + 1]  # the end token takes the place of the token here
                    break
        logprobs = [{0: SimpleNamespace(logprob=-value)} for value in conf]
        return SimpleNamespace(text=text, token_ids=[0] * len(conf), logprobs=logprobs, finish_reason="stop")


def deepthink(job: Job, paths: list[dict[str, Any]]) -> Any:
    """Its online mode on the paths of one question."""
    llm = object.__new__(DeepThinkLLM)
    llm.llm, llm.model_name, llm.tokenizer = RecordedLLM(paths), "recorded", SimpleNamespace(eos_token_id=END)
    llm.init_times = {"llm_init_time": 0.0, "tokenizer_init_time": 0.0}
    return llm.deepthink(
        "",
        "online",
        warmup_traces=job.warmup,
        total_budget=job.paths,
        confidence_percentile=90 if "high" in job.system else 10,
        window_size=job.window,
        sampling_params=SamplingParams(),
        compute_multiple_voting="majority" in job.system,
    )


job = Job.read()
if "unrounded" in job.system:
    utils.round = lambda value, digits: value  # it rounds confidences to three digits, and the means of windows again
with timed():
    for question in job.questions:
        output = deepthink(job, question["paths"])
        cut = [trace for trace in output.final_traces if trace["stop_reason"] == "gconf_threshold"]
        tokens = output.total_tokens
        emit(id=question["id"], answer=output.final_answer, claimed=tokens, tokens=tokens, cut=len(cut))
