"""The monitor inside vLLM: a logits processor that watches all rows of a batch at once and ends those that fail.

    vllm serve MODEL --logits-processors sureenough.vllm.processor:WatchProcessor

It runs before temperature and penalties, so that it sees the model's raw logits; a request whose logits are changed
earlier (by a grammar, a bias, forbidden tokens) cannot be watched and is refused.
"""

from __future__ import annotations

import os
from typing import Any, Final

import torch
from vllm import SamplingParams
from vllm.v1.sample.logits_processor import BatchUpdate, LogitsProcessor, MoveDirectionality
from vllm.v1.worker.gpu_input_batch import InputBatch

from sureenough.core.pruning import Gate
from sureenough.engines.watch.protocol import (
    LOGIT_CHANGES,
    SOCKET_ENV,
    K,
    WatchRequest,
    can_prune,
    longest_window,
    parse_watch_arguments,
)
from sureenough.errors import UsageError
from sureenough.vllm import check_version, installed_version
from sureenough.vllm.monitor import BatchMonitor
from sureenough.vllm.records import PathRecords, serve_records


class WatchProcessor(LogitsProcessor):
    """One per engine."""

    @classmethod
    def validate_params(cls, sampling_params: Any) -> None:
        """Refuse a request that could not be watched, when it arrives."""
        request = parse_watch_arguments(sampling_params.extra_args)
        if request is None:
            return
        for name, description in LOGIT_CHANGES.items():
            if getattr(sampling_params, name, None):
                raise UsageError(
                    f"a watched path cannot have {description}: its confidence would not be the model's own"
                )
        if (sampling_params.n or 1) != 1:
            raise UsageError("a watched request has one path: n must be 1")
        if can_prune(request.gate) and (sampling_params.ignore_eos or sampling_params.min_tokens):
            raise UsageError("a path that may be pruned ends by its end token: leave out ignore_eos and min_tokens")

    def __init__(self, vllm_config: Any, device: torch.device, is_pin_memory: bool) -> None:
        check_version()
        vocabulary = vllm_config.model_config.get_vocab_size()
        if vocabulary < K:
            raise UsageError(f"confidence is a mean over {K} candidates, but the vocabulary has {vocabulary} tokens")
        max_requests = int(vllm_config.scheduler_config.max_num_seqs)
        slots = max_requests + max_requests // 4 + 8  # the spare ones are for preempted requests
        socket_path = os.environ.get(SOCKET_ENV)
        self.monitor = BatchMonitor(slots, longest_window(), device)
        check_decisions(self, vocabulary, device)  # which also compiles the kernels
        if len(vllm_config.model_config.logits_processors or ()) == 1:  # another one may need the ids
            _fetch_no_token_ids()
        parallel = vllm_config.parallel_config
        if socket_path and parallel.rank == 0:
            self.monitor.records = PathRecords(slots)
            # The engines of a model without experts all have rank 0; only the index tells them apart.
            serve_records(self.monitor.records, socket_path, parallel.data_parallel_index)

    def is_argmax_invariant(self) -> bool:
        """Ending a path changes which token is the likeliest."""
        return False

    def update_state(self, batch_update: BatchUpdate | None) -> None:
        """Apply the batch's changes in vLLM's order: removed, added, moved."""
        if batch_update is None:
            return
        monitor = self.monitor
        for row in batch_update.removed:
            monitor.remove(row)
        for row, params, _, output_tokens in batch_update.added:
            monitor.remove(row)
            request = parse_watch_arguments(params.extra_args)
            if request is not None:
                monitor.add(row, request, _end_token(params, request), output_tokens)
        for source, target, direction in batch_update.moved:
            monitor.move(source, target, swap=direction is MoveDirectionality.SWAP)

    def apply(self, logits: torch.Tensor) -> torch.Tensor:
        """One step of the batch."""
        return self.monitor.step(logits)


def _fetch_no_token_ids() -> None:
    """Tell vLLM that its processors do not read sampled ids, only how many there are.

    It fetches the ids of every step for any processor that it does not know, which takes 4% of a step of 512 rows and
    makes the host wait for the device.
    """
    InputBatch.logitsprocs_need_output_token_ids = property(lambda _: False, lambda *_: None)


def _end_token(params: Any, request: WatchRequest) -> int | None:
    """The token that ends a request; any will do for a gate that never closes."""
    if params.eos_token_id is not None:
        return int(params.eos_token_id)
    if params.stop_token_ids:
        return int(params.stop_token_ids[0])
    return 0 if request.gate == Gate() else None


# The monitor's test of itself when vLLM starts: scripted logits go through vLLM's own types, decisions must be right.
# The interface of logits processors has changed before. A change would show here, not in wrong numbers later.

END: Final = 1
WINDOW: Final = 4
DROP: Final = 60.0
"""A logit of 100 makes a token's confidence about 95, equal logits make it the logarithm of the vocabulary, below 20.
With this threshold the second token of equal logits ends the path, whatever the vocabulary."""
CONFIDENT: Final = 5
"""Tokens before the logits become equal."""


def check_decisions(processor: Any, vocabulary: int, device: torch.device) -> None:
    """Watch one path beside one that is not watched, exchange their rows, and end the watched one."""
    try:
        _watch_one_of_two(processor, vocabulary, device)
    except Exception as error:
        problem = f"{type(error).__name__}: {error}"
        raise UsageError(
            f"the monitor's test of itself failed inside vLLM {installed_version()}: {problem}. Use a version that "
            "docs/vllm.md lists, or start vLLM without the monitor: it works over HTTP without it"
        ) from None


def _watch_one_of_two(processor: Any, vocabulary: int, device: torch.device) -> None:
    watch = WatchRequest("self-test", WINDOW, Gate(drop=DROP)).to_arguments()
    outputs: list[list[int]] = [[], []]
    parameters = [SamplingParams(extra_args=watch, stop_token_ids=[END]), SamplingParams()]
    processor.validate_params(parameters[0])
    added = [(row, parameters[row], None, outputs[row]) for row in range(2)]
    processor.update_state(BatchUpdate(batch_size=2, removed=[], added=added, moved=[]))
    watched = 0
    for step in range(CONFIDENT + 2):
        if step == 2:
            moved = [(0, 1, MoveDirectionality.SWAP)]
            processor.update_state(BatchUpdate(batch_size=2, removed=[], added=[], moved=moved))
            watched = 1
        logits = torch.zeros((2, vocabulary), device=device)
        if step < CONFIDENT:
            logits[:, 2] = 100.0
        result = processor.apply(logits.clone())
        ended = int(result[watched].argmax()) == END
        if ended is not (step == CONFIDENT + 1):
            raise RuntimeError(f"a path {'ended' if ended else 'did not end'} at token {step + 1}")
        if not torch.equal(result[1 - watched], logits[1 - watched]):
            raise RuntimeError(f"the logits of a path that is not watched were changed at token {step + 1}")
        for tokens in outputs:
            tokens.append(2)
    processor.update_state(BatchUpdate(batch_size=0, removed=[0, 1], added=[], moved=[]))
