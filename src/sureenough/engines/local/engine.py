"""A GGUF model on this machine as an engine: llama.cpp's server in this process, spoken to as any other server.

Sizes are refused with their numbers before anything is loaded; a question that leaves a path no room, before its first
token. With no model named it is the built-in one.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Any, Final

from sureenough import reasoner
from sureenough.core.events import Token
from sureenough.engines.base import Prompt
from sureenough.engines.local import gguf, hub
from sureenough.engines.local.llama_server import LlamaServer, LlamaServerOptions, served
from sureenough.engines.local.memory import available
from sureenough.engines.openai.client import OpenAI, OpenAIConnection, Timeouts
from sureenough.errors import UsageError

PATH: Final = 4096
"""Tokens of context a path, question included, where nobody says otherwise and the model was trained for as many."""
LEAST_PATH: Final = 1024
QUESTION: Final = 512
"""Tokens that are set aside for the question where only the path's length is given."""
STEP: Final = 256
"""llama.cpp rounds a slot's context up to a multiple of this."""
SAMPLERS: Final = {"samplers": ["temperature", "top_p"], "top_k": 0, "min_p": 0.0}
"""Temperature, then top-p, as vLLM does; llama.cpp's own default draws from the 40 likeliest and scales last."""


@dataclass(frozen=True, slots=True, repr=False)
class Local:
    """A GGUF model on this machine: a file, `hf:OWNER/NAME[:FILE]`, or the built-in model."""

    model: str | Path | None = None
    _: KW_ONLY
    slots: int | None = None  # paths at once at most; as many as the run asks for
    context: int | None = None  # tokens for all slots together
    threads: int | None = None  # all cores; two for the built-in model, which is too small for more
    temperature: float = 0.6
    top_p: float = 0.95
    max_path_tokens: int | None = None
    chat: bool = True
    k: int = 20
    window: int | None = None
    template: str | None = None  # how this model wants a question put
    timeouts: Timeouts = field(default_factory=Timeouts)
    extra: Mapping[str, Any] = field(default_factory=dict)
    port: int = 0  # a free one

    def __post_init__(self) -> None:
        for name in ("slots", "context", "threads"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int) or value < 1):
                raise UsageError(f"{name} is {value}; it must be a whole number, at least 1")
        if self.builtin:
            card = reasoner.card()
            object.__setattr__(self, "window", self.window or card.window)
            object.__setattr__(self, "template", self.template or card.template)
            object.__setattr__(self, "max_path_tokens", self.max_path_tokens or card.longest)
        elif isinstance(self.model, str) and self.model.startswith(hub.PREFIX):
            hub.parse_hub_name(self.model)
        self.wire()  # refuses bad sampling

    def __repr__(self) -> str:
        return f"Local({self.name!r})"

    @property
    def builtin(self) -> bool:
        """Whether this is the model that comes with the package."""
        return self.model is None

    @property
    def name(self) -> str:
        """The model's name, for tables and pools."""
        return reasoner.NAME if self.model is None else str(self.model)

    def wire(self, url: str = "http://127.0.0.1/v1", key: str | None = None) -> OpenAI:
        """The same engine as a client of the server at this address."""
        return OpenAI(
            url, self.name, temperature=self.temperature, top_p=self.top_p, max_path_tokens=self.max_path_tokens,
            chat=self.chat, k=self.k, window=self.window, timeouts=self.timeouts, extra={**SAMPLERS, **self.extra},
            metrics=True, proxies=False, reuse=False, key=key,  # it hangs up on connections that are used again
        )  # fmt: skip

    def prepare(self) -> Path:
        """The file, downloaded or checked where that is needed."""
        if self.model is None:
            return reasoner.file()
        if isinstance(self.model, str) and self.model.startswith(hub.PREFIX):
            return hub.fetch(self.model)
        return Path(self.model).expanduser()

    def plan(self, parallel: int) -> LlamaServerOptions:
        """A server's sizes for so many paths at once; what cannot be is refused with the numbers."""
        file = self.prepare().absolute()
        head = gguf.header(file)
        slots = self.slots or parallel
        if parallel > slots:
            raise UsageError(f"{parallel} paths at once do not fit {slots} slots; give slots={parallel}, or run fewer")
        fixed = head.bytes + 4 * head.vocabulary * 512 + 64_000_000  # weights, and what a batch works on
        slot = self._given(slots) if self.context is not None else self._default(head, slots, fixed)
        if head.context and slot > head.context:
            raise UsageError(
                f"{file.name} was trained for {head.context:,} tokens; {slot:,} a path, question included, are too many"
            )
        threads = self.threads or (min(2, cores()) if self.builtin else cores())
        return LlamaServerOptions(file, slots, slot, threads, fixed + slots * slot * head.cache_bytes, self.port)

    def _given(self, slots: int) -> int:
        """The share of one slot in a context that the caller gave."""
        assert self.context is not None
        slot, needed = self.context // slots, (self.max_path_tokens or STEP - 1) + 1
        if slot < needed:
            raise UsageError(
                f"a context of {self.context:,} tokens leaves {slots} paths {slot:,} each, and a path of "
                f"{needed - 1:,} needs more, besides its question: give context={slots * _rounded(needed + QUESTION)}, "
                "fewer paths at once, or a smaller max_path_tokens"
            )
        return slot

    def _default(self, head: gguf.Header, slots: int, fixed: int) -> int:
        """As long as the caller asked for; else as usual, or less where memory is short."""
        trained = head.context or PATH
        if self.max_path_tokens is not None:
            return max(min(_rounded(self.max_path_tokens + QUESTION), trained), self.max_path_tokens + 1)
        usual, free = min(PATH, trained), available()
        if free is None or not head.cache_bytes:
            return usual
        room = int(0.8 * (free - fixed)) // (slots * head.cache_bytes) // STEP * STEP
        return min(usual, max(room, min(LEAST_PATH, usual)))

    @asynccontextmanager
    async def open(self, *, parallel: int) -> AsyncIterator[Slots]:
        """Start the server, or find it running, and connect."""
        plan = await asyncio.to_thread(self.plan, parallel)
        with served(plan) as running:
            async with self.wire(running.url, running.key).open(parallel=parallel) as connected:
                yield Slots(connected, running)

    async def stream(self, prompt: Prompt, *, seed: int) -> AsyncGenerator[Sequence[Token], None]:
        """Grow one path; a run opens the engine once for all its paths."""
        async with self.open(parallel=1) as ready, aclosing(ready.stream(prompt, seed=seed)) as chunks:
            async for chunk in chunks:
                yield chunk

    def sampling(self) -> dict[str, Any]:
        """How tokens are drawn, as the request says it."""
        return self.wire().sampling()


class Slots:
    """A running server with its connections open."""

    def __init__(self, connected: OpenAIConnection, running: LlamaServer) -> None:
        self.connected, self.running = connected, running
        self.window = connected.window
        self._visit, self._alone = running.visits, running.users == 1
        self._sizes: dict[str, int] = {}
        self._measuring = asyncio.Lock()

    async def made(self) -> int | None:
        """Tokens made since this was opened; unknown where another run used the same server meanwhile."""
        alone = self._alone and self.running.visits == self._visit
        return await self.connected.made() if alone else None

    async def stream(self, prompt: Prompt, *, seed: int) -> AsyncGenerator[Sequence[Token], None]:
        """Grow one path, once it is known to fit."""
        await self._check(prompt)
        async with aclosing(self.connected.stream(prompt, seed=seed)) as chunks:
            async for chunk in chunks:
                yield chunk

    async def _check(self, prompt: Prompt) -> None:
        """Refuse a question that leaves a path too little room."""
        key = json.dumps(prompt.messages)
        async with self._measuring:
            if key not in self._sizes:
                self._sizes[key] = await self._size(prompt)
        size, slot = self._sizes[key], self.running.plan.slot
        longest = self.connected.engine.max_path_tokens
        if size + (longest or 1) > slot:
            path = "" if longest is None else f" and {longest:,} of a path"
            raise UsageError(
                f"{size:,} tokens of the question{path} do not fit the {slot:,} that a path has; "
                "give a larger context, or fewer paths at once, or shorter paths (--max-path-tokens)"
            )

    async def _size(self, prompt: Prompt) -> int:
        """Tokens of a prompt, as the server will read it; 0 where it does not say."""
        text = prompt.text
        if self.connected.engine.chat:
            text = (await self._post("apply-template", {"messages": prompt.messages})).get("prompt", text)
        return len((await self._post("tokenize", {"content": text, "parse_special": True})).get("tokens", []))

    async def _post(self, verb: str, body: dict[str, Any]) -> dict[str, Any]:
        where = self.connected.address.copy_with(path=f"/{verb}")
        reply = await self.connected.client.post(where, json=body)
        found = reply.json() if reply.status_code == 200 else {}
        return found if isinstance(found, dict) else {}


def cores() -> int:
    """Cores that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


def _rounded(tokens: int) -> int:
    return -(-tokens // STEP) * STEP
