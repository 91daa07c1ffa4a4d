"""VLLM's own scheduler, but outputs of watched paths stay in the engine's process until they end.

For every token of every request vLLM sends an output from the engine to the API server, or to the process that uses it
as a library, which handles it in Python, even if the client gets a single reply. A watched path has a record that says
how far it is, so its outputs are dropped unless they are its first or last. The last one carries all tokens since the
first. One that says that a path was preempted is always sent.

Without outputs, what would be left of most messages is vLLM's statistics; these are sent a few times per second, so
that a step of watched paths alone sends nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

from sureenough.engines.watch.protocol import parse_watch_arguments

STATISTICS_SECONDS: Final = 0.25
"""Time between two messages with statistics while the numbers of running and waiting requests stay the same."""
_NEW: Final = object()


def with_whole_replies(choose: Callable[[Any], type]) -> Callable[[Any], type]:
    """The scheduler that vLLM chooses, with `WholeReplies` before it if it is one of vLLM's two usual ones."""

    def get_scheduler_cls(config: Any) -> type:
        base = choose(config)
        usual = base.__module__ in ("vllm.v1.core.sched.scheduler", "vllm.v1.core.sched.async_scheduler")
        return type(base.__name__, (WholeReplies, base), {}) if usual else base

    return get_scheduler_cls


class WholeReplies:
    """A mixin before one of vLLM's schedulers, which calls `update_from_output` after every step."""

    requests: dict[str, Any]

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        # Requests and how many of their tokens were sent, by id; None for one that sends all its outputs.
        self._quiet: dict[str, tuple[Any, int] | None] = {}
        self._reported: Any = None  # numbers of running and waiting requests in the last statistics
        self._statistics_due = 0.0

    def update_from_output(self, *arguments: Any, **named: Any) -> Any:
        """Drop the outputs that are not needed. This loop runs for every token of every request."""
        by_client = super().update_from_output(*arguments, **named)  # type: ignore[misc]
        quiet = self._quiet
        for message in by_client.values():
            due = []
            for output in message.outputs:
                known: Any = quiet.get(output.request_id, _NEW)
                if known is _NEW:
                    quiet[output.request_id] = _quiet(self.requests.get(output.request_id), output)
                elif known is not None:
                    if output.finish_reason is None and not output.events:
                        continue
                    request, sent = known
                    output.new_token_ids = list(request.output_token_ids[sent:])
                    quiet[output.request_id] = request, sent + len(output.new_token_ids)
                due.append(output)
                if output.finish_reason is not None:
                    quiet.pop(output.request_id, None)
            message.outputs = due
        return {
            client: message
            for client, message in by_client.items()
            if message.outputs or message.scheduler_stats is not None or message.finished_requests
        }

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
        self._quiet = {known: request for known, request in self._quiet.items() if known in self.requests}
        return finished


def _quiet(request: Any, output: Any) -> tuple[Any, int] | None:
    """A request whose first output this is, and how many of its tokens that has; None if all are needed."""
    # Rows of other kinds for their tokens, which we do not join; or its tokens may become a prompt.
    others = output.routed_experts is not None or getattr(output, "new_sampling_mask", None) is not None
    if request is None or request.resumable or others or not needs_only_its_end(request.sampling_params):
        return None
    return request, len(output.new_token_ids)


def needs_only_its_end(params: Any) -> bool:
    """Whether this is a watched path whose reply is whole. The API server must see every token for a stop text."""
    if params is None or params.stop or params.prompt_logprobs is not None or params.logprobs is not None:
        return False
    return params.output_kind.name == "FINAL_ONLY" and parse_watch_arguments(params.extra_args) is not None
