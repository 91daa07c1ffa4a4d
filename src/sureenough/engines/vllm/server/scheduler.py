"""vLLM's own scheduler, except that a watched path leaves the engine's process once, at its end.

    vllm serve MODEL --scheduler-cls sureenough.engines.vllm.server.scheduler.watch_scheduler

For every token of every request vLLM sends an output from the engine to the API server, which handles it in Python,
even if the client gets a single reply. A watched path needs none of them: how far it is, its record says. So its
outputs are joined, and only the last one is sent.
"""

from __future__ import annotations

from typing import Any

from vllm.sampling_params import RequestOutputKind
from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.scheduler import Scheduler

from sureenough.engines.vllm.protocol import parse_watch_arguments


def watch_scheduler(vllm_config: Any, **arguments: Any) -> Scheduler:
    """The scheduler for vLLM's settings: it plans a step ahead or not."""
    scheduler = _AsyncWatchScheduler if vllm_config.scheduler_config.async_scheduling else _WatchScheduler
    return scheduler(vllm_config=vllm_config, **arguments)


class _JoinedOutputs:
    """A mixin before one of vLLM's schedulers."""

    requests: dict[str, Any]

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._whole: dict[str, bool] = {}  # whether a request's outputs are joined
        self._joined: dict[str, Any] = {}  # the first output of a request, with the tokens of those after it

    def add_request(self, request: Any, *arguments: Any, **named: Any) -> Any:
        """Decide once per request whether its outputs are joined."""
        self._whole[request.request_id] = needs_only_the_end(request.sampling_params)
        return super().add_request(request, *arguments, **named)  # type: ignore[misc]

    def update_from_output(self, *arguments: Any, **named: Any) -> Any:
        """Keep the outputs of paths that go on, and send those that end whole."""
        by_client = super().update_from_output(*arguments, **named)  # type: ignore[misc]
        for sent in by_client.values():
            sent.outputs = [output for output in sent.outputs if self._is_due(output)]
        return by_client

    def finish_requests(self, *arguments: Any, **named: Any) -> Any:
        """Forget the requests that a client gave up."""
        finished = super().finish_requests(*arguments, **named)  # type: ignore[misc]
        for request_id in [known for known in self._whole if known not in self.requests]:
            self._forget(request_id)
        return finished

    def _is_due(self, output: Any) -> bool:
        request_id = output.request_id
        if not self._whole.get(request_id):
            if output.finish_reason is not None:
                self._forget(request_id)
            return True
        first = self._joined.get(request_id)
        if output.finish_reason is None:
            if first is None:
                output.new_token_ids = list(output.new_token_ids)  # ours to extend
                self._joined[request_id] = output
            else:
                _join(first, output)
            return False
        if first is not None:
            _join(first, output)
            output.new_token_ids, output.events, output.prefill_stats = (
                first.new_token_ids, first.events, first.prefill_stats,
            )  # fmt: skip
        self._forget(request_id)
        return True

    def _forget(self, request_id: str) -> None:
        self._whole.pop(request_id, None)
        self._joined.pop(request_id, None)


class _WatchScheduler(_JoinedOutputs, Scheduler):
    """Plans a step when the last one has ended."""


class _AsyncWatchScheduler(_JoinedOutputs, AsyncScheduler):
    """Plans a step while the last one runs."""


def needs_only_the_end(params: Any) -> bool:
    """Whether a request is watched and its reply is whole; the API server itself must see tokens for a stop string."""
    return (
        params is not None
        and params.output_kind == RequestOutputKind.FINAL_ONLY
        and not params.stop
        and params.logprobs is None
        and params.prompt_logprobs is None
        and parse_watch_arguments(params.extra_args) is not None
    )


def _join(first: Any, later: Any) -> None:
    first.new_token_ids += later.new_token_ids
    if later.events:
        first.events = (first.events or []) + later.events
    first.prefill_stats = first.prefill_stats or later.prefill_stats
