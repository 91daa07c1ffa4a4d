"""vLLM in this process as an engine: `VLLM("Qwen/Qwen3-4B")`. Closing a path's generator aborts its request.

Paths of a run are watched by the monitor inside and come back as a count, a text and a summary; a path that is asked
for by itself comes with the signals of its tokens. Text is made once, at a path's end.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from copy import copy
from itertools import count
from pathlib import Path
from typing import Any, Final, Self

from sureenough.core.events import Token
from sureenough.core.pruning import Gate
from sureenough.engines.base import Chunk, Prompt
from sureenough.engines.openai.logprobs import token_signals
from sureenough.engines.vllm.protocol import LONGEST, SOCKET, K, WatchRequest
from sureenough.engines.vllm.server.records_socket import request_record, summary
from sureenough.engines.vllm.versions import installed, refuse_untried
from sureenough.errors import EngineError, EngineRejected, UsageError

PROCESSOR: Final = "sureenough.engines.vllm.server.logits_processor:WatchProcessor"


class VLLM:
    """A model inside this process. It is loaded when a run opens it; `async with` keeps it for several runs."""

    def __init__(
        self,
        model: str,
        *,
        temperature: float = 0.6,
        top_p: float = 0.95,
        max_path_tokens: int | None = None,
        window: int | None = None,
        longest_window: int = 2048,
        extra: Mapping[str, Any] | None = None,  # further sampling parameters
        **arguments: Any,  # of vLLM's AsyncEngineArgs
    ) -> None:
        refuse_untried(installed())
        if not model:
            raise UsageError("which model? Give a name or a folder")
        self.model, self.window, self._arguments = model, window, arguments
        self._sampling = {"temperature": temperature, "top_p": top_p, **(extra or {})}
        self._most, self._longest_window = max_path_tokens, longest_window
        self._engine: Any = None
        self._place: str | None = None
        self._keys = count()

    def sampled(self, *, max_path_tokens: int | None = None, **sampling: Any) -> VLLM:
        """The same model, loaded once, with other sampling parameters."""
        other = copy(self)
        other._sampling = self._sampling | sampling
        other._most = max_path_tokens or self._most
        return other

    # -- loading

    async def __aenter__(self) -> Self:
        self._folder = tempfile.TemporaryDirectory(prefix="sureenough-")
        self._place = str(Path(self._folder.name) / "desk")
        os.environ |= {SOCKET: self._place, LONGEST: str(self._longest_window), "VLLM_USE_V2_MODEL_RUNNER": "0"}
        from vllm.engine.arg_utils import AsyncEngineArgs
        from vllm.v1.engine.async_llm import AsyncLLM

        arguments = {"max_logprobs": K, "logits_processors": [PROCESSOR], **self._arguments}
        self._engine = AsyncLLM.from_engine_args(AsyncEngineArgs(model=self.model, **arguments))
        self._tokenizer = self._engine.get_tokenizer()
        return self

    async def __aexit__(self, *_: object) -> None:
        engine, self._engine = self._engine, None
        engine.shutdown()
        os.environ.pop(SOCKET, None)
        self._folder.cleanup()

    @asynccontextmanager
    async def open(self, *, parallel: int) -> AsyncIterator[Self]:
        """Ready for a run; loads the model unless `async with` did."""
        if self._engine is not None:
            yield self
            return
        async with self:
            yield self

    @property
    def running(self) -> int:
        """Requests that the engine has not finished."""
        return 0 if self._engine is None else int(self._engine.output_processor.get_num_unfinished_requests())

    # -- paths

    async def stream(self, prompt: Prompt, *, seed: int) -> AsyncGenerator[Sequence[Token], None]:
        """Grow one path."""
        if self._engine is None:
            async with self.open(parallel=1), aclosing(self.stream(prompt, seed=seed)) as chunks:
                async for chunk in chunks:
                    yield chunk
            return
        name = f"path-{next(self._keys):08}-{seed}"
        guard = prompt.guard if prompt.signals else None
        asked = None
        if guard is not None:
            asked = WatchRequest(name, guard.window, guard.gate or Gate(), trace=guard.gate is None)
        ids = self._ids(prompt)
        made: list[int] = []
        finish = "stop"
        params = self._params(len(ids), seed, signals=prompt.signals and asked is None, asked=asked)
        try:
            async with aclosing(self._engine.generate({"prompt_token_ids": ids}, params, name)) as outputs:
                async for output in outputs:
                    one = output.outputs[0]
                    made += one.token_ids
                    finish = one.finish_reason or finish
                    if one.token_ids and prompt.signals and asked is None:
                        yield Chunk(_tokens(one.logprobs), text="")
                    elif one.token_ids:
                        yield Chunk(unread=len(one.token_ids), text="")
        except ValueError as error:  # vLLM's word for a request that it does not take
            raise EngineRejected(f"vLLM refused the request: {error}") from None
        yield await self._last(ids, made, finish, asked)

    async def _last(self, ids: list[int], made: list[int], finish: str, asked: WatchRequest | None) -> Chunk:
        text = self._tokenizer.decode(made, skip_special_tokens=True)
        told = None
        if asked is not None and self._place is not None:
            said = await request_record(self._place, asked.key, len(made))
            if "lost" in said:
                raise EngineError(f"the monitor watched a path and could not tell of it: {said['lost']}")
            told = summary(said, asked.window)
        end = "length" if finish == "length" else "stop"
        return Chunk(text=text, finish=end, prompt_tokens=len(ids), summary=told)

    def _ids(self, prompt: Prompt) -> list[int]:
        messages = [dict(message) for message in prompt.messages]
        found = self._tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=True)
        return list(found["input_ids"] if isinstance(found, Mapping) else found)

    def _params(self, prompt: int, seed: int, *, signals: bool, asked: WatchRequest | None) -> Any:
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        room = int(self._engine.model_config.max_model_len) - prompt
        if room < 1:
            raise EngineRejected(f"the prompt has {prompt} tokens and the model room for {prompt + room}")
        return SamplingParams(
            **self._sampling,
            seed=seed,
            max_tokens=min(room, self._most or room),
            logprobs=K if signals else None,
            flat_logprobs=True,
            detokenize=False,
            output_kind=RequestOutputKind.DELTA,
            extra_args=None if asked is None else asked.written(),
        )


def _tokens(flat: Any) -> list[Token]:
    """Signals of the tokens of one output.

    The sampled token's own entry comes first, apart from the candidates; but where vLLM has joined several outputs into
    one, a token that is among its candidates comes once. The last entries are the candidates in both cases.
    """
    bounds = zip(flat.start_indices, flat.end_indices, strict=True)
    return [Token("", *token_signals(flat.logprobs[start:end][-K:], K)) for start, end in bounds]
