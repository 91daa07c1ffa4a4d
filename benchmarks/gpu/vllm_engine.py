"""vLLM in the process of a command: `sureenough bench … --engine vllm_engine:engine`, with this folder in PYTHONPATH.

SUREENOUGH_VLLM_ENGINE has the arguments of `VLLM` as JSON, `model` among them. Tokens are passed on in groups of 64,
which spares this process most of its work per token.
"""

from __future__ import annotations

import json
import os
from typing import Any

from sureenough.engines.vllm.in_process import VLLM

VARIABLE = "SUREENOUGH_VLLM_ENGINE"


class NamedVLLM(VLLM):
    """With a name for tables, and the sampling parameters for the terms of a journal."""

    def __init__(self, name: str, **arguments: Any) -> None:
        super().__init__(**{"stream_interval": 64, **arguments})
        self.name = name

    def model_name(self) -> str:
        return self.name

    def sampling(self) -> dict[str, Any]:
        return {**self._sampling, "max_path_tokens": self.max_path_tokens}


def engine() -> NamedVLLM:
    """The engine that the variable describes."""
    return NamedVLLM(**json.loads(os.environ[VARIABLE]))
