"""Outputs of watched paths that stay in the engine's process.

For every token of every request vLLM sends an output from the engine to the API server, which handles it in Python,
even if the client gets a single reply. A watched path does not need them: its record says how far it is. So an output
is dropped unless it is the path's first or last (or says that the path was preempted), and it carries all tokens since
the one before. Without outputs, what would be left of most messages is vLLM's statistics; these are sent a few times
per second, so that a step of watched paths alone sends nothing.
"""

from __future__ import annotations

import time
from typing import Any, Final

from sureenough.engines.vllm.protocol import parse_watch_arguments

STATISTICS_SECONDS: Final = 0.25
"""Time between two messages with statistics while the numbers of running and waiting requests stay the same."""
_NEW: Final = object()


class WholeReplies:
    """A mixin before one of vLLM's schedulers, which calls `update_from_output` after every step."""

    requests: dict[str, Any]

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._quiet: dict[str, Any] = {}  # by id: the request whose outputs are dropped, None for one that sends all
        self._sent: dict[str, int] = {}  # tokens of such a request that were sent
        self._reported: Any = None  # numbers of running and waiting requests in the last statistics
        self._statistics_due = 0.0

    def update_from_output(self, *arguments: Any, **named: Any) -> Any:
        """Drop the outputs that are not needed. This loop runs for every token of every request."""
        by_client = super().update_from_output(*arguments, **named)  # type: ignore[misc]
        quiet = self._quiet
        for message in by_client.values():
            due = []
            for output in message.outputs:
                request = quiet.get(output.request_id, _NEW)
                if request is _NEW:
                    self._start(output)
                elif request is not None:
                    if output.finish_reason is None and not output.events:
                        continue
                    self._catch_up(output, request)
                due.append(output)
                if output.finish_reason is not None:
                    self._forget(output.request_id)
            message.outputs = due
        return {client: message for client, message in by_client.items() if _has_content(message)}

    def make_stats(self, *arguments: Any, **named: Any) -> Any:
        """Statistics, or None if they can wait.

        Counts of cached tokens and evictions add up in vLLM until they are fetched, and its other values are those of
        the moment. Only what `update_from_output` passes on belongs to one step. Other callers pass nothing and need
        a result.
        """
        values, now = (*arguments, *named.values()), time.monotonic()
        counts = self.get_request_counts()  # type: ignore[attr-defined]
        can_wait = any(counts) and counts == self._reported and now < self._statistics_due  # there will be another step
        if values and can_wait and all(value is None for value in values):
            return None
        self._reported, self._statistics_due = counts, now + STATISTICS_SECONDS
        return super().make_stats(*arguments, **named)  # type: ignore[misc]

    def finish_requests(self, *arguments: Any, **named: Any) -> Any:
        """Forget the requests that a client gave up."""
        finished = super().finish_requests(*arguments, **named)  # type: ignore[misc]
        for request_id in [known for known in self._quiet if known not in self.requests]:
            self._forget(request_id)
        return finished

    def _start(self, output: Any) -> None:
        request = self.requests.get(output.request_id)
        is_quiet = request is not None and needs_only_the_end(request.sampling_params)
        self._quiet[output.request_id] = request if is_quiet else None
        self._sent[output.request_id] = len(output.new_token_ids)

    def _catch_up(self, output: Any, request: Any) -> None:
        output.new_token_ids = list(request.output_token_ids[self._sent[output.request_id] :])
        self._sent[output.request_id] += len(output.new_token_ids)

    def _forget(self, request_id: str) -> None:
        self._quiet.pop(request_id, None)
        self._sent.pop(request_id, None)


def _has_content(message: Any) -> bool:
    return bool(message.outputs or message.scheduler_stats is not None or message.finished_requests)


def needs_only_the_end(params: Any) -> bool:
    """Whether a request is watched and its reply is whole; the API server itself must see tokens for a stop string."""
    return (
        params is not None
        and params.output_kind.name == "FINAL_ONLY"
        and not params.stop
        and params.logprobs is None
        and params.prompt_logprobs is None
        and parse_watch_arguments(params.extra_args) is not None
    )
