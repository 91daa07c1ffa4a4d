"""vLLM in the process of a command: `sureenough bench … --engine vllm_engine:engine`, with this folder in PYTHONPATH.

SUREENOUGH_VLLM_ENGINE has the arguments of `VLLM` as JSON, `model` among them. Tokens are passed on in groups of 64,
which spares this process most of its work per token. With `go`, the name of a file, it loads the model and then waits
until that file exists.
"""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any, Self

from sureenough.vllm.engine import VLLM

VARIABLE = "SUREENOUGH_VLLM_ENGINE"


class NamedVLLM(VLLM):
    """With a name for tables, and the sampling parameters for the terms of a journal."""

    def __init__(self, name: str, go: str | None = None, **arguments: Any) -> None:
        super().__init__(**{"stream_interval": 64, **arguments})
        self.name, self.go = name, go

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        print("loaded", flush=True)
        try:
            while self.go is not None and not Path(self.go).exists():
                await asyncio.sleep(0.2)
        except asyncio.CancelledError:  # Ctrl-C while it waits: the model would stay loaded
            await self.__aexit__()
            raise
        return self

    def model_name(self) -> str:
        return self.name

    def sampling(self) -> dict[str, Any]:
        return {**self._sampling, "max_path_tokens": self.max_path_tokens}


def engine() -> NamedVLLM:
    """The engine that the variable describes."""
    return NamedVLLM(**json.loads(os.environ[VARIABLE]))
