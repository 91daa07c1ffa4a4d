"""vLLM in this process as an engine: `VLLM("Qwen/Qwen3-4B")`. Closing a path's generator aborts its request.

The monitor watches the paths of a run, which come back as a count, a text and a summary; a path outside a run comes
with the signals of its tokens. Text is decoded once, at a path's end.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping, Sequence
from contextlib import ExitStack, aclosing, asynccontextmanager, contextmanager
from copy import copy
from itertools import count
from pathlib import Path
from typing import Any, Self

from sureenough.core.events import Summary, Token
from sureenough.core.pruning import Gate
from sureenough.engines.base import Chunk, Prompt
from sureenough.engines.openai.logprobs import token_signals
from sureenough.engines.openai.parser import FINISH_REASONS
from sureenough.engines.vllm.protocol import LOGITS_PROCESSOR, K, WatchRequest, parse_summary, server_environment
from sureenough.engines.vllm.server.records_socket import request_record
from sureenough.engines.vllm.versions import check_version, installed_version
from sureenough.errors import EngineError, EngineRejected, UsageError


class VLLM:
    """A model inside this process. A run loads it when it starts; `async with` keeps it loaded for several runs."""

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
        check_version(installed_version())
        if not model:
            raise UsageError("model is empty; give the name or the folder of a model")
        self.model, self.window, self._arguments = model, window, arguments
        self._sampling = {"temperature": temperature, "top_p": top_p, **(extra or {})}
        self._max_path_tokens, self._longest_window = max_path_tokens, longest_window
        self._engine: Any = None
        self._socket_path = ""
        self._resources = ExitStack()
        self._request_numbers = count()

    def sampled(self, *, max_path_tokens: int | None = None, **sampling: Any) -> VLLM:
        """The same model, loaded once, with other sampling parameters."""
        other = copy(self)
        other._sampling = self._sampling | sampling
        other._max_path_tokens = max_path_tokens or self._max_path_tokens
        return other

    # -- loading

    def model_name(self) -> str:
        """The name or folder of the model."""
        return self.model

    async def __aenter__(self) -> Self:
        with ExitStack() as resources:  # a failed start leaves neither its folder nor its environment behind
            folder = resources.enter_context(tempfile.TemporaryDirectory(prefix="sureenough-"))
            socket_path = str(Path(folder) / "records.sock")
            resources.enter_context(_environment(server_environment(socket_path, self._longest_window)))
            from vllm.engine.arg_utils import AsyncEngineArgs
            from vllm.v1.engine.async_llm import AsyncLLM

            arguments = {"max_logprobs": K, "logits_processors": [LOGITS_PROCESSOR], **self._arguments}
            engine = AsyncLLM.from_engine_args(AsyncEngineArgs(model=self.model, **arguments))
            resources.callback(engine.shutdown)
            self._tokenizer = engine.get_tokenizer()
            self._engine, self._socket_path, self._resources = engine, socket_path, resources.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._engine = None
        self._resources.close()

    @asynccontextmanager
    async def open(self, *, parallel: int) -> AsyncIterator[Self]:
        """Load the model for a run, unless `async with` did."""
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
        request_id = f"path-{next(self._request_numbers):08}-{seed}"
        watch = prompt.watch if prompt.signals else None
        request = None
        if watch is not None:
            request = WatchRequest(request_id, watch.window, watch.gate or Gate(), trace=watch.gate is None)
        prompt_ids = self._prompt_ids(prompt)
        output_ids: list[int] = []
        finish = "stop"
        params = self._params(len(prompt_ids), seed, signals=prompt.signals and request is None, request=request)
        try:
            async with aclosing(self._engine.generate({"prompt_token_ids": prompt_ids}, params, request_id)) as outputs:
                async for output in outputs:
                    delta = output.outputs[0]
                    output_ids += delta.token_ids
                    finish = delta.finish_reason or finish
                    if delta.token_ids and prompt.signals and request is None:
                        yield Chunk(_tokens(delta.logprobs), text="")
                    elif delta.token_ids:
                        yield Chunk(unread=len(delta.token_ids), text="")
        except ValueError as error:  # what vLLM raises for a request that it does not accept
            raise EngineRejected(f"vLLM refused the request: {error}") from None
        text = self._tokenizer.decode(output_ids, skip_special_tokens=True)
        summary = None if request is None else await self._summary(request, len(output_ids))
        if finish not in FINISH_REASONS:
            raise EngineError(f"vLLM ended the path with the finish reason {str(finish)[:40]!r}")
        yield Chunk(text=text, finish=FINISH_REASONS[finish], prompt_tokens=len(prompt_ids), summary=summary)

    async def _summary(self, request: WatchRequest, tokens: int) -> Summary:
        record = await request_record(self._socket_path, request.key, tokens)
        if "lost" in record:
            raise EngineError(f"the monitor watched a path, but has no record of it: {record['lost']}")
        return parse_summary(record, request.window)

    def _prompt_ids(self, prompt: Prompt) -> list[int]:
        messages = [dict(message) for message in prompt.messages]
        ids = self._tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=True)
        return list(ids["input_ids"] if isinstance(ids, Mapping) else ids)

    def _params(self, prompt_tokens: int, seed: int, *, signals: bool, request: WatchRequest | None) -> Any:
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        longest = int(self._engine.model_config.max_model_len)
        remaining = longest - prompt_tokens
        if remaining < 1:
            raise EngineRejected(f"the prompt has {prompt_tokens} tokens, but the model takes at most {longest} in all")
        return SamplingParams(
            **self._sampling,
            seed=seed,
            max_tokens=min(remaining, self._max_path_tokens or remaining),
            logprobs=K if signals else None,
            flat_logprobs=True,
            detokenize=False,
            output_kind=RequestOutputKind.DELTA,
            extra_args=None if request is None else request.to_arguments(),
        )


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set these environment variables, and restore what they were."""
    previous = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in previous.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _tokens(flat: Any) -> list[Token]:
    """Signals of the tokens of one output.

    The sampled token's own entry comes first, apart from the candidates; but if vLLM has joined several outputs into
    one, a token that is among its candidates comes once. The last entries are the candidates in both cases.
    """
    bounds = zip(flat.start_indices, flat.end_indices, strict=True)
    return [Token("", *token_signals(flat.logprobs[start:end][-K:], K)) for start, end in bounds]
