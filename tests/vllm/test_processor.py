"""The monitor's test of itself passes for the real processor, and finds processors that are called in another way."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from enum import Enum
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from sureenough.errors import UsageError
from tests.requirements import require

if TYPE_CHECKING:
    import torch
else:
    torch = require("torch")

from sureenough.vllm.monitor import BatchMonitor
from tests.vllm.stored import replace_modules

PROCESSOR = "sureenough.vllm.processor"


class SamplingParams(SimpleNamespace):
    """As much of vLLM's as the processor reads."""

    def __init__(self, extra_args: Any = None, stop_token_ids: Any = None) -> None:
        plain = {"n": 1, "ignore_eos": False, "min_tokens": 0, "eos_token_id": None}
        super().__init__(extra_args=extra_args, stop_token_ids=stop_token_ids, **plain)


class MoveDirectionality(Enum):
    SWAP = 1


@pytest.fixture
def check(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Runs the test on the real processor, with some of its methods replaced."""
    processors = {"BatchUpdate": SimpleNamespace, "LogitsProcessor": object, "MoveDirectionality": MoveDirectionality}
    modules: dict[str, dict[str, Any]] = {
        "vllm": {"SamplingParams": SamplingParams},
        "vllm.v1.sample.logits_processor": processors,
        "vllm.v1.worker.gpu_input_batch": {"InputBatch": object},
    }
    replace_modules(monkeypatch, modules)
    monkeypatch.delitem(sys.modules, PROCESSOR, raising=False)
    module = importlib.import_module(PROCESSOR)

    def run(vocabulary: int = 500, **replaced: Any) -> None:
        processor = module.WatchProcessor.__new__(module.WatchProcessor)
        processor.monitor = BatchMonitor(4, 64, torch.device("cpu"))
        for name, method in replaced.items():
            monkeypatch.setattr(processor, name, method.__get__(processor))
        module.check_decisions(processor, vocabulary, torch.device("cpu"))

    yield run
    sys.modules.pop(PROCESSOR, None)


@pytest.mark.parametrize("vocabulary", [20, 500, 151_936])
def test_the_real_processor_passes(vocabulary: int, check: Callable[..., None]) -> None:
    check(vocabulary)


def deaf_to_moves(self: Any, update: Any) -> None:
    type(self).update_state(self, SimpleNamespace(**vars(update) | {"moved": []}))


def unchanged(self: Any, logits: torch.Tensor) -> torch.Tensor:
    return logits


def ends_at_once(self: Any, logits: torch.Tensor) -> torch.Tensor:
    logits[:, 1] = 1e20
    return logits


def ends_both(self: Any, logits: torch.Tensor) -> torch.Tensor:
    result: torch.Tensor = self.monitor.step(logits)
    if bool((result[:, 1] > 1e10).any()):
        result[:, 1] = 1e20
    return result


def refuses(self: Any, *_: object) -> None:
    raise TypeError("an interface that changed")


@pytest.mark.parametrize(
    ("replaced", "problem"),
    [
        ({"update_state": deaf_to_moves}, "did not end at token 7"),
        ({"apply": unchanged}, "did not end at token 7"),
        ({"apply": ends_at_once}, "a path ended at token 1"),
        ({"apply": ends_both}, "a path that is not watched were changed at token 7"),
        ({"update_state": refuses}, "TypeError: an interface that changed"),
        ({"validate_params": refuses}, "TypeError: an interface that changed"),
    ],
)
def test_a_processor_that_is_called_in_another_way_is_found(
    replaced: dict[str, Any], problem: str, check: Callable[..., None]
) -> None:
    with pytest.raises(UsageError, match=f"the monitor's test of itself failed inside vLLM .*: .*{problem}"):
        check(**replaced)
