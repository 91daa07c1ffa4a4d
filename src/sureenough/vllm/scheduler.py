"""vLLM's own scheduler, but outputs of requests stay in the engine's process until they are needed.

For every token of every request vLLM sends an output from the engine to the API server, or to the process that uses it
as a library, which handles it in Python, even if the client gets a single reply. Two kinds of requests do not need
them. A watched path has a record that says how far it is, so its outputs are dropped unless they are its first or last.
The continuations of a search come in groups of as many tokens as the request says, with their log-probabilities.
An output that is sent carries all tokens since the one before. One that says that a path was preempted is always sent.

Without outputs, what would be left of most messages is vLLM's statistics; these are sent a few times per second, so
that a step of watched paths alone sends nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from sureenough.engines.watch.protocol import GROUP_ARGUMENT, parse_watch_arguments

STATISTICS_SECONDS: Final = 0.25
"""Time between two messages with statistics while the numbers of running and waiting requests stay the same."""
LARGEST_GROUP: Final = 512
"""Tokens in a group, at most: each holds the log-probabilities of all requests of its step in memory."""
LARGE_STEP: Final = 1 << 19
"""Bytes of a step's log-probabilities that are not held for the sake of a few rows."""
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
        self._quiet: dict[str, _QuietRequest | None] = {}  # by id; None for one that sends all its outputs
        self._reported: Any = None  # numbers of running and waiting requests in the last statistics
        self._statistics_due = 0.0

    def update_from_output(self, *arguments: Any, **named: Any) -> Any:
        """Drop the outputs that are not needed. This loop runs for every token of every request."""
        by_client = super().update_from_output(*arguments, **named)  # type: ignore[misc]
        quiet = self._quiet
        for message in by_client.values():
            due = []
            for output in message.outputs:
                request: Any = quiet.get(output.request_id, _NEW)
                if request is _NEW:
                    quiet[output.request_id] = _quiet_request(self.requests.get(output.request_id), output)
                elif request is not None:
                    whole = request.group and request.keep(output)
                    if not whole and output.finish_reason is None and not output.events:
                        continue
                    request.catch_up(output)
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


class _QuietRequest:
    """A request whose outputs are dropped, and what was not sent of it."""

    __slots__ = ("_logprobs", "_request", "_sent", "group")

    def __init__(self, request: Any, group: int, sent: int) -> None:
        self._request, self.group, self._sent = request, group, sent
        self._logprobs: list[Any] = []

    def keep(self, output: Any) -> bool:
        """Keep the log-probabilities of an output; True if the group is whole."""
        if output.new_logprobs is not None:
            self._logprobs.append(_lasting(output.new_logprobs))
        return len(self._request.output_token_ids) - self._sent >= self.group

    def catch_up(self, output: Any) -> None:
        """Give an output all that was not sent."""
        output.new_token_ids = list(self._request.output_token_ids[self._sent :])
        self._sent += len(output.new_token_ids)
        if self._logprobs:
            output.new_logprobs, self._logprobs = _joined(self._logprobs), []


def _quiet_request(request: Any, output: Any) -> _QuietRequest | None:
    """What to know of a request whose first output this is; None if all its outputs are needed."""
    # Rows of other kinds for their tokens, which we do not join; or its tokens may become a prompt.
    others = output.routed_experts is not None or getattr(output, "new_sampling_mask", None) is not None
    if request is None or request.resumable or others:
        return None
    group = tokens_per_output(request.sampling_params)
    return None if group is None else _QuietRequest(request, group, len(output.new_token_ids))


def tokens_per_output(params: Any) -> int | None:
    """How many tokens are sent together: 0 for all at the end, None for each as it comes.

    A watched path whose reply is whole needs only its end. The API server must see every token for a stop text.
    """
    if params is None or params.stop or params.prompt_logprobs is not None:
        return None
    group: Any = (params.extra_args or {}).get(GROUP_ARGUMENT)
    if isinstance(group, int) and group > 1:
        return min(group, LARGEST_GROUP)
    whole = params.output_kind.name == "FINAL_ONLY" and params.logprobs is None
    return 0 if whole and parse_watch_arguments(params.extra_args) is not None else None


def _lasting(logprobs: Any) -> Any:
    """Log-probabilities that stay as they are.

    They are rows of their step's arrays. With several workers, vLLM uses the memory of arrays of a MiB or more again a
    few steps later.
    """
    if getattr(logprobs[0].base, "nbytes", 0) < LARGE_STEP:
        return logprobs
    return type(logprobs)(*(field.copy() if isinstance(field, np.ndarray) else field for field in logprobs))


def _joined(logprobs: list[Any]) -> Any:
    """Log-probabilities of several steps as if one step had made all tokens; vLLM's named tuple of arrays by token."""
    fields = zip(*logprobs, strict=True)
    return type(logprobs[0])(*(_rows(field) if isinstance(field[0], np.ndarray) else None for field in fields))


def _rows(parts: Sequence[Any]) -> Any:
    """Rows of several steps. A step has as many columns as its greediest request needs; every request has enough."""
    if parts[0].ndim > 1:
        columns = min(part.shape[1] for part in parts)
        parts = [part[:, :columns] for part in parts]
    return np.concatenate(parts)
