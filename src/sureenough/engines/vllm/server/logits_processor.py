"""The monitor inside vLLM: a logits processor that watches all rows of a batch at once and ends those that fail.

    vllm serve MODEL --logits-processors sureenough.engines.vllm.server.logits_processor:WatchProcessor

It stands before temperature and penalties, so that it sees the model's raw logits; a request that has them changed
earlier (a grammar, a bias, forbidden tokens) cannot be watched and is refused. A step copies three integers a watched
row to the device and never waits for it.
"""

from __future__ import annotations

import os
from typing import Any

import torch
from vllm.v1.sample.logits_processor import BatchUpdate, LogitsProcessor, MoveDirectionality

from sureenough.core.pruning import Gate
from sureenough.engines.vllm.protocol import CHANGING, SOCKET, K, WatchRequest, longest_window, prunes, read
from sureenough.engines.vllm.server.batch_monitor import BatchMonitor
from sureenough.engines.vllm.server.records import PathRecords
from sureenough.engines.vllm.server.records_socket import serve_records
from sureenough.engines.vllm.versions import installed, refuse_untried
from sureenough.errors import UsageError


class WatchProcessor(LogitsProcessor):
    """One per engine."""

    @classmethod
    def validate_params(cls, sampling_params: Any) -> None:
        """Refuse, when a request comes in, what could not be watched."""
        asked = read(sampling_params.extra_args)
        if asked is None:
            return
        for name, words in CHANGING.items():
            if getattr(sampling_params, name, None):
                raise UsageError(f"a watched path cannot have {words}: its confidence would not be the model's own")
        if (sampling_params.n or 1) != 1:
            raise UsageError("watch one path a request: n must be 1")
        if prunes(asked.gate) and (sampling_params.ignore_eos or sampling_params.min_tokens):
            raise UsageError("a path that may be pruned ends by its end token: leave out ignore_eos and min_tokens")

    def __init__(self, vllm_config: Any, device: torch.device, is_pin_memory: bool) -> None:
        refuse_untried(installed())
        if vllm_config.parallel_config.data_parallel_size > 1:
            raise UsageError("the monitor serves one engine; data_parallel_size must be 1")
        vocabulary = vllm_config.model_config.get_vocab_size()
        if vocabulary < K:
            raise UsageError(f"confidence is a mean over {K} candidates; this model's vocabulary has {vocabulary}")
        place = os.environ.get(SOCKET)
        first = vllm_config.parallel_config.rank == 0
        most = int(vllm_config.scheduler_config.max_num_seqs)
        slots = most + most // 4 + 8
        self.board = PathRecords(slots) if place and first else None
        if self.board is not None and place is not None:
            serve_records(self.board, place)
        self.monitor = BatchMonitor(slots, longest_window(), device, self.board)
        self.monitor.warm_up(vocabulary)

    def is_argmax_invariant(self) -> bool:
        """Ending a path changes which token is the likeliest."""
        return False

    def update_state(self, batch_update: BatchUpdate | None) -> None:
        """Requests came, went and moved, in vLLM's order: removed, added, moved."""
        if batch_update is None:
            return
        monitor = self.monitor
        for row in batch_update.removed:
            monitor.remove(row)
        for row, params, _, made in batch_update.added:
            monitor.remove(row)
            asked = read(params.extra_args)
            if asked is not None:
                monitor.add(row, asked, _end(params, asked), made)
        for one, other, how in batch_update.moved:
            monitor.move(one, other, swap=how is MoveDirectionality.SWAP)

    def apply(self, logits: torch.Tensor) -> torch.Tensor:
        """One step of the batch."""
        return self.monitor.step(logits)


def _end(params: Any, asked: WatchRequest) -> int | None:
    """The token that ends a request; none is needed where no gate can close."""
    if params.eos_token_id is not None:
        return int(params.eos_token_id)
    if params.stop_token_ids:
        return int(params.stop_token_ids[0])
    return 0 if asked.gate == Gate() else None
