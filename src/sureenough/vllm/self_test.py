"""The monitor's test of itself when vLLM starts: scripted logits go through vLLM's own types, decisions must be right.

The interface of logits processors has changed before. A change would show here, not in wrong numbers later.
"""

from __future__ import annotations

from typing import Any, Final

import torch
from vllm import SamplingParams
from vllm.v1.sample.logits_processor import BatchUpdate, MoveDirectionality

from sureenough.core.pruning import Gate
from sureenough.engines.watch.protocol import WatchRequest
from sureenough.errors import UsageError
from sureenough.vllm.versions import installed_version

END: Final = 1
WINDOW: Final = 4
DROP: Final = 60.0
"""A logit of 100 makes a token's confidence about 95, equal logits make it the logarithm of the vocabulary, below 20.
With this threshold the second token of equal logits ends the path, whatever the vocabulary."""
CONFIDENT: Final = 5
"""Tokens before the logits become equal."""


def check_decisions(processor: Any, vocabulary: int, device: torch.device) -> None:
    """Watch one path beside one that is not watched, exchange their rows, and end the watched one."""
    try:
        problem = _run(processor, vocabulary, device)
    except Exception as error:
        problem = f"{type(error).__name__}: {error}"
    if problem:
        raise UsageError(
            f"the monitor's test of itself failed inside vLLM {installed_version()}: {problem}. Use a version that "
            "docs/vllm.md lists, or start vLLM without the monitor: it works over HTTP without it"
        )


def _run(processor: Any, vocabulary: int, device: torch.device) -> str | None:
    watch = WatchRequest("self-test", WINDOW, Gate(drop=DROP)).to_arguments()
    outputs: list[list[int]] = [[], []]
    parameters = [SamplingParams(extra_args=watch, stop_token_ids=[END]), SamplingParams()]
    processor.validate_params(parameters[0])
    added = [(row, parameters[row], None, outputs[row]) for row in range(2)]
    processor.update_state(BatchUpdate(batch_size=2, removed=[], added=added, moved=[]))
    watched = 0
    for step in range(CONFIDENT + 2):
        if step == 2:
            moved = [(0, 1, MoveDirectionality.SWAP)]
            processor.update_state(BatchUpdate(batch_size=2, removed=[], added=[], moved=moved))
            watched = 1
        logits = torch.zeros((2, vocabulary), device=device)
        if step < CONFIDENT:
            logits[:, 2] = 100.0
        result = processor.apply(logits.clone())
        ended = int(result[watched].argmax()) == END
        if ended is not (step == CONFIDENT + 1):
            return f"a path ended at token {step + 1}" if ended else f"a path did not end at token {step + 1}"
        if not torch.equal(result[1 - watched], logits[1 - watched]):
            return f"the logits of a path that is not watched were changed at token {step + 1}"
        for tokens in outputs:
            tokens.append(2)
    processor.update_state(BatchUpdate(batch_size=0, removed=[0, 1], added=[], moved=[]))
    return None
