"""The processor with vLLM's own types (`.ci/vllm .ci/inprocess`): its test of itself passes, and finds changes."""

from __future__ import annotations

from functools import partial
from importlib.metadata import entry_points
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from sureenough.errors import UsageError
from tests.requirements import require

if TYPE_CHECKING:
    import torch
else:
    torch = require("torch")
    pytest.importorskip("vllm.v1.worker.gpu.sample.logits_processor", exc_type=ImportError)

from sureenough.vllm.processor import V1Processor, WatchProcessor, check_decisions, v1_trial, v2_trial

CPU = torch.device("cpu")


def config(vocabulary: int) -> Any:
    return SimpleNamespace(
        speculative_config=None, parallel_config=SimpleNamespace(), scheduler_config=SimpleNamespace(max_num_seqs=4),
        model_config=SimpleNamespace(get_vocab_size=lambda: vocabulary),
    )  # fmt: skip


def states(vocabulary: int) -> Any:
    from vllm.v1.worker.gpu.sample.logits_processor import LogitsProcRequestState

    unread: Any = None
    lengths: Any = SimpleNamespace(np=np.zeros(4, np.int32))
    return LogitsProcRequestState(
        device=CPU, max_num_reqs=4, vocab_size=vocabulary, all_token_ids=unread, prompt_len=lengths,
        prefill_len=lengths, total_len=unread,
    )  # fmt: skip


def check(runner: str, vocabulary: int = 500) -> None:
    trial: Any = partial(v1_trial, config(vocabulary), CPU)
    if runner == "V2":
        trial = partial(v2_trial, config(vocabulary), states(vocabulary))
    check_decisions(trial, config(vocabulary), CPU)


@pytest.mark.parametrize("vocabulary", [20, 500, 151_936])
@pytest.mark.parametrize("runner", ["V1", "V2"])
def test_the_real_processor_passes(runner: str, vocabulary: int) -> None:
    check(runner, vocabulary)


def unchanged(self: Any, logits: torch.Tensor, *_: Any) -> torch.Tensor:
    return logits


def ends_at_once(self: Any, logits: torch.Tensor, *_: Any) -> torch.Tensor:
    logits[:, 1] = 1e20
    return logits


def refuses(self: Any, *_: object) -> None:
    raise TypeError("an interface that changed")


@pytest.mark.parametrize(
    ("method", "replacement", "problem"),
    [
        ("apply", unchanged, "did not end at token 7"),
        ("apply", ends_at_once, "a path ended at token 1"),
        ("apply", refuses, "TypeError: an interface that changed"),
    ],
)
@pytest.mark.parametrize(("runner", "owner"), [("V1", V1Processor), ("V2", WatchProcessor)])
def test_a_processor_that_is_called_in_another_way_is_found(
    runner: str, owner: Any, method: str, replacement: Any, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, method, replacement)
    with pytest.raises(UsageError, match=f"the monitor's test of itself failed inside vLLM .*: .*{problem}"):
        check(runner)


def test_each_runner_gets_its_own_interface_from_one_entry_point() -> None:
    from vllm.v1.worker.gpu.sample.logits_processor.loader import _load_v2_logitsprocs_plugins

    assert WatchProcessor in _load_v2_logitsprocs_plugins()  # which refuses classes of the other interface
    assert isinstance(WatchProcessor(config(500), states(500)), WatchProcessor)
    pinned: Any = False
    assert isinstance(WatchProcessor(config(500), CPU, pinned), V1Processor)
    (general,), (endpoint,) = (
        entry_points(group=f"vllm.{group}", name="sureenough") for group in ("general_plugins", "endpoint_plugins")
    )
    assert callable(general.load())
    assert endpoint.load().name == "sureenough"


def test_what_vllm_calls_is_what_we_have() -> None:
    """Every method of the second runner's interface, with its arguments."""
    from inspect import signature

    from vllm.v1.worker.gpu.sample.logits_processor import LogitsProcessor

    for name in ("validate_params", "add_request", "apply"):
        assert list(signature(getattr(WatchProcessor, name)).parameters) == list(
            signature(getattr(LogitsProcessor, name)).parameters
        )
