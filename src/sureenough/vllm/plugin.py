"""What vLLM's own processes get from the plug-in: a call of the workers that reads records, and the scheduler.

vLLM runs `install` in every process, by the entry point `vllm.general_plugins`.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, Final

from sureenough.vllm import version_problem
from sureenough.vllm.processor import EngineMonitor

log: Final = logging.getLogger("vllm.sureenough")
READ_RECORDS: Final = "read_sureenough_records"
"""Name of the call."""


def install() -> None:
    """Add the call and the scheduler, once per process; whatever is wrong must not stop vLLM."""
    problem = version_problem()
    if problem is not None:
        log.warning("sureenough is not active: %s", problem)
        return
    try:
        from vllm.config.scheduler import SchedulerConfig
        from vllm.v1.worker.worker_base import WorkerBase

        from sureenough.vllm.scheduler import with_whole_replies

        if not hasattr(WorkerBase, READ_RECORDS):
            setattr(WorkerBase, READ_RECORDS, read_records)
            SchedulerConfig.get_scheduler_cls = with_whole_replies(SchedulerConfig.get_scheduler_cls)
    except Exception:
        log.exception("sureenough is not active")


def read_records(worker: Any, keys: Sequence[str], paths: Sequence[tuple[str, int | None]]) -> Any:
    """Progress of the paths with these keys, and records after so many tokens; None in a worker without a sampler."""
    monitor = EngineMonitor.current
    if monitor is None:
        return None
    records = monitor.records.read([(key, tokens) for key, tokens in paths])
    return [
        [None if one is None else list(one) for one in monitor.records.read_progress(keys)],
        [None if record is None else record.to_json() for record in records],
    ]
