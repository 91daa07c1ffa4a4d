"""A GGUF model on this machine as an engine: llama.cpp's server in this process, used like any other server.

Sizes that cannot work are refused with their numbers before anything is loaded; a question that leaves a path too
little context, before its first token. Without a model, it is the built-in one.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Any, Final

from sureenough import reasoner
from sureenough.engines.base import ClosedEngine, Prompt, SharedEngine, TokenStream
from sureenough.engines.local import models
from sureenough.engines.local.llama_server import LlamaServer, LlamaServerOptions, available, served
from sureenough.engines.openai.client import OpenAI, OpenAIConnection, Timeouts
from sureenough.errors import UsageError

DEFAULT_CONTEXT: Final = 4096
"""Tokens of context per path, question included, unless set otherwise or the model was trained for fewer."""
LEAST_CONTEXT: Final = 1024
QUESTION_TOKENS: Final = 512  # context for the question if only the length of paths is given
CONTEXT_STEP: Final = 256  # llama.cpp rounds a slot's context up to a multiple of this
SAMPLERS: Final = {"samplers": ["temperature", "top_p"], "top_k": 0, "min_p": 0.0}
"""Temperature, then top-p, as in vLLM. llama.cpp by default keeps the 40 likeliest tokens, with temperature last."""


@dataclass(frozen=True, slots=True, repr=False)
class Local(ClosedEngine):
    """A GGUF model on this machine: a file, `hf:OWNER/NAME[:FILE]`, or the built-in model."""

    model: str | Path | None = None
    _: KW_ONLY
    slots: int | None = None  # most paths in parallel; as many as the run needs
    context: int | None = None  # tokens for all slots together
    threads: int | None = None  # all cores; two for the built-in model, which is too small for more
    temperature: float = 0.6
    top_p: float = 0.95
    max_path_tokens: int | None = None
    chat: bool = True
    k: int = 20
    window: int | None = None
    template: str | None = None  # wording of questions that suits this model
    timeouts: Timeouts = field(default_factory=Timeouts)
    extra: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("slots", "context", "threads"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int) or value < 1):
                raise UsageError(f"{name} is {value}; it must be a whole number, at least 1", argument=name)
        if self.builtin:
            card = reasoner.card()
            object.__setattr__(self, "window", self.window or card.window)
            object.__setattr__(self, "template", self.template or card.template)
            if self.max_path_tokens is None:
                object.__setattr__(self, "max_path_tokens", card.longest)
        elif isinstance(self.model, str) and self.model.startswith(models.HUB_PREFIX):
            models.parse_hub_name(self.model)
        self.wire()  # refuses bad sampling

    def __repr__(self) -> str:
        return f"Local({self.name!r})"

    @property
    def builtin(self) -> bool:
        return self.model is None

    @property
    def name(self) -> str:
        return reasoner.NAME if self.model is None else str(self.model)

    def wire(self, url: str = "http://127.0.0.1/v1", key: str | None = None) -> OpenAI:
        names = ("temperature", "top_p", "max_path_tokens", "chat", "k", "window", "timeouts")
        settings: dict[str, Any] = {name: getattr(self, name) for name in names}
        settings |= {"metrics": True, "proxies": False, "reuse": False}  # llama.cpp closes connections that are reused
        return OpenAI(url, self.name, api_key=key, extra={**SAMPLERS, **self.extra}, **settings)

    def prepare(self) -> Path:
        """The model's file, downloaded first if necessary."""
        if self.model is None:
            return reasoner.file()
        if isinstance(self.model, str) and self.model.startswith(models.HUB_PREFIX):
            return models.fetch(self.model)
        return Path(self.model).expanduser()

    def plan(self, parallel: int) -> LlamaServerOptions:
        """A server's sizes for this many parallel paths; impossible ones are refused with the numbers."""
        file = self.prepare().absolute()
        head = models.header(file)
        slots = self.slots or parallel
        if parallel > slots:
            raise UsageError(f"{parallel} parallel paths do not fit {slots} slots; give slots={parallel}, or run fewer")
        fixed = head.bytes + 4 * head.vocabulary * 512 + 64_000_000  # weights, and the buffers of a batch
        slot = self._share(slots) if self.context is not None else self._default_context(head, slots, fixed)
        if head.context and slot > head.context:
            most = head.context - min(QUESTION_TOKENS, head.context // 2)
            fix = f"max_path_tokens={most}" if self.context is None else f"context={slots * head.context}"
            raise UsageError(
                f"{file.name} was trained for {head.context:,} tokens; {slot:,} per path, question included, are more: "
                f"give {fix} or less",
                argument="max_path_tokens",
            )
        threads = self.threads or (min(2, cores()) if self.builtin else cores())
        return LlamaServerOptions(file, slots, slot, threads, fixed + slots * slot * head.cache_bytes)

    def _share(self, slots: int) -> int:
        """The share of one slot in the context that the caller set."""
        assert self.context is not None
        slot, needed = self.context // slots, (self.max_path_tokens or CONTEXT_STEP - 1) + 1
        if slot < needed:
            raise UsageError(
                f"a context of {self.context:,} tokens leaves {slots} paths {slot:,} each, and a path of "
                f"{needed - 1:,} needs more, besides its question: give context="
                f"{slots * _rounded(needed + QUESTION_TOKENS)}, fewer parallel paths, or a smaller max_path_tokens",
                argument="max_path_tokens",
            )
        return slot

    def _default_context(self, head: models.Header, slots: int, fixed: int) -> int:
        """Enough for `max_path_tokens` if that is set; else the default, or less if memory is short."""
        trained = head.context or DEFAULT_CONTEXT
        if self.max_path_tokens is not None:
            return max(min(_rounded(self.max_path_tokens + QUESTION_TOKENS), trained), self.max_path_tokens + 1)
        usual, free = min(DEFAULT_CONTEXT, trained), available()
        if free is None or not head.cache_bytes:
            return usual
        room = int(0.8 * (free - fixed)) // (slots * head.cache_bytes) // CONTEXT_STEP * CONTEXT_STEP
        return min(usual, max(room, min(LEAST_CONTEXT, usual)))

    @asynccontextmanager
    async def open(self, *, parallel: int) -> AsyncIterator[LocalConnection]:
        """Start the server, unless it runs already, and connect."""
        plan = await asyncio.to_thread(self.plan, parallel)
        with served(plan) as server:
            async with self.wire(server.url, server.key).open(parallel=parallel) as connection:
                yield LocalConnection(connection, server)

    def model_name(self) -> str:
        return self.name

    def sampling(self) -> dict[str, Any]:
        return self.wire().sampling()


class LocalConnection(SharedEngine):
    """A running server with its connections open; it refuses by itself a beginning that does not fit the context."""

    def __init__(self, connection: OpenAIConnection, server: LlamaServer) -> None:
        super().__init__(connection)
        self.connection, self.server = connection, server
        self._visits, self._alone = server.visits, server.users == 1
        self._sizes: dict[str, int] = {}  # tokens of prompts
        self._measuring = asyncio.Lock()

    async def generated_tokens(self) -> int | None:
        """Tokens generated since this was opened; unknown if another run used the server meanwhile."""
        alone = self._alone and self.server.visits == self._visits
        return await self.connection.generated_tokens() if alone else None

    async def stream(self, prompt: Prompt, *, seed: int) -> TokenStream:
        await self._check_size(prompt)
        async with aclosing(self.connection.stream(prompt, seed=seed)) as chunks:
            async for chunk in chunks:
                yield chunk

    async def _check_size(self, prompt: Prompt) -> None:
        key = json.dumps(prompt.messages)
        async with self._measuring:
            if key not in self._sizes:
                self._sizes[key] = await self._prompt_tokens(prompt)
        size, plan = self._sizes[key], self.server.plan
        longest = self.connection.engine.max_path_tokens
        if size + (longest or 1) <= plan.slot:
            return
        path = "" if longest is None else f" and {longest:,} of a path"
        fix = "give a shorter question or a larger context"
        if longest is not None and size < plan.slot:
            fix += f", or context={plan.slots * plan.slot} and max_path_tokens={plan.slot - size}"
        raise UsageError(
            f"{size:,} tokens of the question{path} do not fit the {plan.slot:,} of a path's context: {fix}"
        )

    async def _prompt_tokens(self, prompt: Prompt) -> int:
        """Tokens of a prompt as the server will read it; 0 if it does not tell."""
        text = prompt.text
        if self.connection.engine.chat:
            text = (await self._post("/apply-template", {"messages": prompt.messages})).get("prompt", text)
        tokens = (await self._post("/tokenize", {"content": text, "parse_special": True})).get("tokens")
        return len(tokens) if isinstance(tokens, list) else 0

    async def _post(self, endpoint: str, body: dict[str, Any]) -> dict[str, Any]:
        """The reply of an endpoint that only llama.cpp has; nothing if it fails there."""
        seconds = self.connection.engine.timeouts.first_token
        content = await self.connection.fetch(endpoint, json.dumps(body).encode(), seconds=seconds)
        with suppress(ValueError, RecursionError):
            reply = json.loads(content or b"")
            return reply if isinstance(reply, dict) else {}
        return {}


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _rounded(tokens: int) -> int:
    return -(-tokens // CONTEXT_STEP) * CONTEXT_STEP
