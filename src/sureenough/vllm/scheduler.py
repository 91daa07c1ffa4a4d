"""vLLM's own scheduler, except that a watched path leaves the engine's process at its first token and its end alone.

vllm serve MODEL --scheduler-cls sureenough.vllm.scheduler.watch_scheduler
"""

from __future__ import annotations

from typing import Any

from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.scheduler import Scheduler

from sureenough.vllm.whole_replies import WholeReplies


def watch_scheduler(vllm_config: Any, **arguments: Any) -> Scheduler:
    """The scheduler for vLLM's settings: it plans a step ahead or not."""
    scheduler = _AsyncWatchScheduler if vllm_config.scheduler_config.async_scheduling else _WatchScheduler
    return scheduler(vllm_config=vllm_config, **arguments)


class _WatchScheduler(WholeReplies, Scheduler):
    """Plans a step when the last one has ended."""


class _AsyncWatchScheduler(WholeReplies, AsyncScheduler):
    """Plans a step while the last one runs."""
