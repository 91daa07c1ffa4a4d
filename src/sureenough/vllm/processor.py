"""The monitor inside vLLM: a logits processor that watches all rows of a batch at once and ends those that fail.

vLLM loads it from its entry point, in every process and for every model. Until a request asks to be watched it does
nothing and holds no memory. It runs before temperature, so that it sees the model's raw logits; a request whose logits
are changed earlier (by a grammar, a bias, forbidden tokens) cannot be watched and is refused.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from sureenough.core.pruning import Gate
from sureenough.engines.watch.protocol import (
    LOGIT_CHANGES,
    LONGEST_WINDOW,
    K,
    WatchRequest,
    can_prune,
    parse_watch_arguments,
)
from sureenough.errors import UsageError
from sureenough.vllm import installed_version, version_problem
from sureenough.vllm.records import Ints, PathRecords

if TYPE_CHECKING:
    from sureenough.vllm.monitor import BatchMonitor

V2Processor: Any = object
with suppress(ImportError):  # an old version, which is refused by name when a request asks to be watched
    from vllm.v1.worker.gpu.sample.logits_processor import LogitsProcessor as V2Processor  # type: ignore[no-redef]

log: Final = logging.getLogger("vllm.sureenough")


def configuration_problem(vllm_config: Any) -> str | None:
    """Why paths cannot be watched with this configuration of vLLM; None if they can."""
    if vllm_config.speculative_config is not None:
        return "speculative decoding samples several tokens per step"
    if getattr(vllm_config.parallel_config, "enable_batch_sharded_sampling", False):
        return "with batch-sharded sampling no worker sees all rows"
    vocabulary = vllm_config.model_config.get_vocab_size()
    if vocabulary < K:
        return f"confidence is a mean over {K} candidates, but the vocabulary has {vocabulary} tokens"
    return None


class EngineMonitor:
    """The monitor of one engine, made when the first request asks to be watched.

    What goes wrong in it must not end the engine: from then on all paths are lost, with the reason.
    """

    current: EngineMonitor | None = None  # of this process

    def __init__(self, vllm_config: Any, device: Any, requests: int, check: Callable[[], None]) -> None:
        self._device, self._check, self._slots = device, check, requests + requests // 4 + 8  # spare: preempted ones
        self.problem = configuration_problem(vllm_config)
        self.records = PathRecords(self._slots)
        self._batch: BatchMonitor | None = None

    def start(self, params: Any, tokens: int) -> int | None:
        """The slot of a request that joins the batch with so many tokens already sampled; None if it is not watched."""
        request = parse_watch_arguments(params.extra_args)
        if request is None:
            return None
        if self._batch is None and self.problem is None:
            self._guarded(self._begin)
        if self._batch is None or self.problem is not None:
            self.records.lose_path(request.key, str(self.problem))
            return None
        return self._batch.start(request, _end_token(params, request), tokens)

    def leave(self, slot: int) -> None:
        if self._batch is not None:
            self._batch.leave(slot)

    def step(self, *arguments: Any) -> None:
        """Take one token of each watched row; see `BatchMonitor`."""
        if self._batch is not None and self.problem is None:
            self._guarded(self._batch.step, *arguments)

    def _begin(self) -> None:
        from sureenough.vllm.monitor import BatchMonitor

        self._check()  # which also compiles the kernels
        self._batch = BatchMonitor(self._slots, LONGEST_WINDOW, self._device, self.records)

    def _guarded(self, work: Callable[..., None], *arguments: Any) -> None:
        try:
            work(*arguments)
        except Exception as error:
            self.problem = str(error) if isinstance(error, UsageError) else f"{type(error).__name__}: {error}"
            log.exception("sureenough watches no paths any more: %s", self.problem)


def _end_token(params: Any, request: WatchRequest) -> int | None:
    """The token that ends a request; any will do for a gate that never closes."""
    if params.eos_token_id is not None:
        return int(params.eos_token_id)
    if params.stop_token_ids:
        return int(params.stop_token_ids[0])
    return 0 if request.gate == Gate() else None


class V1Processor:
    """For vLLM's first model runner, which says how the rows of its batch change."""

    def __init__(self, vllm_config: Any, device: Any, requests: int, check: Callable[[], None] | None = None) -> None:
        check = check or (lambda: check_decisions(partial(v1_trial, vllm_config, device), vllm_config, device))
        self.monitor = EngineMonitor(vllm_config, device, requests, check)
        self._rows: dict[int, tuple[int, Sequence[int]]] = {}  # slots, and the engine's own lists, which grow

    def is_argmax_invariant(self) -> bool:
        """Ending a path changes which token is the likeliest."""
        return False

    def update_state(self, batch_update: Any) -> None:
        """Apply the batch's changes in vLLM's order: removed, added, moved."""
        if batch_update is None:
            return
        for row in batch_update.removed:
            self._remove(row)
        for row, params, _, output_tokens in batch_update.added:
            self._remove(row)
            slot = self.monitor.start(params, len(output_tokens))
            if slot is not None:
                self._rows[row] = slot, output_tokens
        for source, target, direction in batch_update.moved:
            if direction.name != "SWAP":
                self._remove(target)
            moved, other = self._rows.pop(source, None), self._rows.pop(target, None)
            self._rows |= {row: path for row, path in ((target, moved), (source, other)) if path is not None}

    def _remove(self, row: int) -> None:
        path = self._rows.pop(row, None)
        if path is not None:
            self.monitor.leave(path[0])

    def apply(self, logits: Any) -> Any:
        """One step of the batch."""
        if self._rows:
            slots, outputs = zip(*self._rows.values(), strict=True)
            counts = np.array([len(tokens) for tokens in outputs], dtype=np.int32)
            self.monitor.step(logits, np.array(list(self._rows)), np.array(slots), counts)
        return logits


class WatchProcessor(V2Processor):
    """One per engine, for vLLM's second model runner; for the first one, making it gives a `V1Processor`.

    The runner knows a request by the number of its place. It says when a place is taken, not when it is left.
    """

    def __new__(cls, vllm_config: Any, states: Any, *pinned: Any) -> Any:
        """The first runner passes a device in the place of the states, and whether memory should be pinned."""
        if not pinned:
            return super().__new__(cls)
        processor = V1Processor(vllm_config, states, int(vllm_config.scheduler_config.max_num_seqs))
        EngineMonitor.current = processor.monitor
        return processor

    def __init__(self, vllm_config: Any, states: Any, check: Callable[[], None] | None = None) -> None:
        own = check or (lambda: check_decisions(partial(v2_trial, vllm_config, states), vllm_config, states.device))
        self.monitor = EngineMonitor(vllm_config, states.device, int(states.max_num_reqs), own)
        if check is None:
            EngineMonitor.current = self.monitor
        self._states = states
        self._slots: Ints = np.full(int(states.max_num_reqs), -1, dtype=np.int64)  # by place; -1: not watched

    @classmethod
    def validate_params(cls, sampling_params: Any) -> None:
        """Refuse a request that could not be watched, when it arrives."""
        request = parse_watch_arguments(sampling_params.extra_args)
        if request is None:
            return
        if (problem := version_problem()) is not None:
            raise UsageError(problem)
        for name, description in LOGIT_CHANGES.items():
            if getattr(sampling_params, name, None):
                raise UsageError(
                    f"a watched path cannot have {description}: its confidence would not be the model's own"
                )
        if (sampling_params.n or 1) != 1:
            raise UsageError("a watched request has one path: n must be 1")
        if can_prune(request.gate) and (sampling_params.ignore_eos or sampling_params.min_tokens):
            raise UsageError("a path that may be pruned ends by its end token: leave out ignore_eos and min_tokens")

    def add_request(self, req_idx: int, sampling_params: Any) -> bool:
        """A request takes this place, perhaps after it was preempted in another."""
        if self._slots[req_idx] >= 0:
            self.monitor.leave(int(self._slots[req_idx]))
            self._slots[req_idx] = -1
        sampled = int(self._states.prefill_len.np[req_idx] - self._states.prompt_len.np[req_idx])
        slot = self.monitor.start(sampling_params, sampled)
        if slot is not None:
            self._slots[req_idx] = slot
        return slot is not None

    def apply(self, logits: Any, ctx: Any) -> Any:
        """One step of the batch. A row whose prompt is not read to its end yields no token."""
        places = ctx.idx_mapping_np
        lengths, slots = ctx.seq_lens_upper_bound_np[: len(places)], self._slots[places]
        rows = np.flatnonzero((slots >= 0) & (lengths >= self._states.prefill_len.np[places]))
        if len(rows):
            counts = lengths[rows] - self._states.prompt_len.np[places[rows]]
            self.monitor.step(logits, rows, slots[rows], counts.astype(np.int32))
        return logits


# The monitor's test of itself before the first path: scripted logits go through vLLM's own types, decisions must be
# right. The interface of logits processors has changed before. A change would show here, not in wrong numbers later.

END: Final = 1
WINDOW: Final = 4
DROP: Final = 60.0
"""A logit of 100 makes a token's confidence about 95, equal logits make it the logarithm of the vocabulary, below 20.
With this threshold the second token of equal logits ends the path, whatever the vocabulary."""
CONFIDENT: Final = 5
"""Tokens before the logits become equal."""


Trial = Callable[[Sequence[Any]], Callable[[Any, int], Any]]
"""Starts two requests with these parameters, in exchanged rows, and returns what applies the processor to a step."""


def v1_trial(vllm_config: Any, device: Any, parameters: Sequence[Any]) -> Callable[[Any, int], Any]:
    """As the first runner would hand them over."""
    from vllm.v1.sample.logits_processor import BatchUpdate, MoveDirectionality

    processor, outputs = V1Processor(vllm_config, device, 2, check=lambda: None), [list[int](), list[int]()]
    added: Any = [(row, parameters[row], None, outputs[row]) for row in range(2)]
    exchanged = [(0, 1, MoveDirectionality.SWAP)]
    processor.update_state(BatchUpdate(batch_size=2, removed=[], added=added, moved=exchanged))

    def apply(logits: Any, step: int) -> Any:
        result = processor.apply(logits)
        for tokens in outputs:
            tokens.append(2)
        return result

    return apply


def v2_trial(vllm_config: Any, states: Any, parameters: Sequence[Any]) -> Callable[[Any, int], Any]:
    """As the second runner would, with a prompt of three tokens."""
    from vllm.v1.worker.gpu.sample.logits_processor import LogitsContext, LogitsProcRequestState

    lengths, unread = SimpleNamespace(np=np.full(2, 3, dtype=np.int32)), None
    own = LogitsProcRequestState(
        device=states.device, max_num_reqs=2, vocab_size=states.vocab_size, all_token_ids=states.all_token_ids,
        prompt_len=lengths, prefill_len=lengths, total_len=states.total_len,
    )  # fmt: skip
    processor = WatchProcessor.__new__(WatchProcessor, vllm_config, own)
    WatchProcessor.__init__(processor, vllm_config, own, check=lambda: None)
    if [processor.add_request(place, parameters[place]) for place in range(2)] != [True, False]:
        raise RuntimeError("the wrong request is watched")

    def apply(logits: Any, step: int) -> Any:
        context = LogitsContext(
            expanded_idx_mapping=unread, idx_mapping=unread, idx_mapping_np=np.array([1, 0]), expanded_local_pos=unread,
            input_ids=unread, pos=unread, seq_lens_upper_bound_np=np.full(2, 3 + step, dtype=np.int32),
        )  # fmt: skip
        return processor.apply(logits, context)

    return apply


def check_decisions(trial: Trial, vllm_config: Any, device: Any) -> None:
    """Watch one path beside one that is not watched, and end it."""
    try:
        _watch_one_of_two(trial, vllm_config.model_config.get_vocab_size(), device)
    except Exception as error:
        problem = f"{type(error).__name__}: {error}"
        raise UsageError(
            f"the monitor's test of itself failed inside vLLM {installed_version()}: {problem}. Use a version that "
            "docs/vllm.md lists; other servers work over HTTP without the monitor"
        ) from None


def _watch_one_of_two(trial: Trial, vocabulary: int, device: Any) -> None:
    import torch
    from vllm import SamplingParams

    watch = WatchRequest("self-test", WINDOW, Gate(drop=DROP)).to_arguments()
    parameters = [SamplingParams(extra_args=watch, stop_token_ids=[END]), SamplingParams()]
    WatchProcessor.validate_params(parameters[0])
    apply = trial(parameters)
    for step in range(CONFIDENT + 2):
        logits = torch.zeros((2, vocabulary), device=device)
        if step < CONFIDENT:
            logits[:, 2] = 100.0
        other, watched = apply(logits.clone(), step)
        ended = int(watched.argmax()) == END
        if ended is not (step == CONFIDENT + 1):
            raise RuntimeError(f"a path {'ended' if ended else 'did not end'} at token {step + 1}")
        if not torch.equal(other, logits[0]):
            raise RuntimeError(f"the logits of a path that is not watched were changed at token {step + 1}")
