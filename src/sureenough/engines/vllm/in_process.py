"""vLLM in this process as an engine: `VLLM("Qwen/Qwen3-4B")`. Closing a path's generator aborts its request.

The monitor watches the paths of a run, which come back as a count, a text and a summary; a path outside a run comes
with the signals of its tokens. Text is decoded once, at a path's end.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from copy import copy, deepcopy
from itertools import count
from typing import Any, Self

from sureenough.engines.openai.reply import to_end_of_token
from sureenough.engines.requests import Chunk, ExtendOptions, Prompt, TokenStream
from sureenough.engines.vllm.growing_path import GrowingPath
from sureenough.engines.vllm.loaded_model import LoadedModel
from sureenough.engines.vllm.protocol import GROUP_ARGUMENT, K, WatchRequest, is_countable
from sureenough.engines.vllm.versions import check_version, installed_version
from sureenough.errors import EngineRejected, UsageError


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
        self.model, self.window = model, window
        self._sampling = {"temperature": temperature, "top_p": top_p, **(extra or {})}
        self.max_path_tokens, self.longest_window = max_path_tokens, longest_window
        self.stream_interval = int(arguments.get("stream_interval", 1))  # tokens per output of unwatched paths
        self._loaded = LoadedModel(model, longest_window, arguments)
        self._request_numbers = count()
        self._encoded: tuple[Any, list[int]] | None = None  # the latest prompt and its tokens

    def sampled(self, *, max_path_tokens: int | None = None, **sampling: Any) -> VLLM:
        """The same model, loaded once, with other sampling parameters."""
        other = copy(self)
        other._sampling = self._sampling | sampling
        other.max_path_tokens = max_path_tokens or self.max_path_tokens
        return other

    # -- loading

    def model_name(self) -> str:
        """The name or folder of the model."""
        return self.model

    async def __aenter__(self) -> Self:
        self._loaded.acquire()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._loaded.release()

    @asynccontextmanager
    async def open(self, *, parallel: int) -> AsyncIterator[Self]:
        """Load the model for a run, unless `async with` or another run did."""
        async with self:
            yield self

    @property
    def running(self) -> int:
        """Requests that the engine has not finished."""
        engine = self._loaded.engine
        return 0 if engine is None else int(engine.output_processor.get_num_unfinished_requests())

    # -- paths

    async def stream(self, prompt: Prompt, *, seed: int) -> TokenStream:
        """Grow one path."""
        if self._loaded.engine is None:
            async with self.open(parallel=1), aclosing(self.stream(prompt, seed=seed)) as chunks:
                async for chunk in chunks:
                    yield chunk
            return
        request_id = f"path-{next(self._request_numbers):08}-{seed}"
        watch = prompt.watch if prompt.signals or is_countable(self._sampling) else None
        request = None if watch is None else WatchRequest.of(request_id, watch, signals=prompt.signals)
        prompt_ids = self._prompt_ids(prompt)
        path, decoded = GrowingPath(), {"detokenize": bool(self._sampling.get("stop"))}
        signals = prompt.signals and request is None
        params = self._params(len(prompt_ids), seed, k=K if signals else None, request=request, changes=decoded)
        try:
            generated = self._loaded.engine.generate({"prompt_token_ids": prompt_ids}, params, request_id)
            watched = generated if request is None else self._loaded.with_progress(generated, request.key)
            async with aclosing(generated), aclosing(watched) as outputs:
                async for output in outputs:
                    grown = path.add(output, K if signals else None)
                    if grown is not None:
                        yield grown
        except ValueError as error:  # what vLLM raises for a request that it does not accept
            raise EngineRejected(f"vLLM refused the request: {error}") from None
        except (GeneratorExit, asyncio.CancelledError):
            if watch is not None and watch.report_unheard is not None:
                await self._loaded.report_cancelled(request_id, path.tokens, watch.report_unheard)
            raise
        last = path.last(len(prompt_ids))
        if not decoded["detokenize"]:
            last.text = self._loaded.tokenizer.decode(path.ids, skip_special_tokens=True)
        if request is not None and request.record:
            last.summary = await self._loaded.summary(request, len(path.ids))
        yield last

    async def extend(
        self, prompt: Prompt, beginning: str | Sequence[int], options: ExtendOptions, *, seed: int
    ) -> TokenStream:
        """Continue a beginning: the ids of its tokens, or a text, of which what was sampled here keeps its ids."""
        if self._loaded.engine is None:
            async with self.open(parallel=1), aclosing(self.extend(prompt, beginning, options, seed=seed)) as chunks:
                async for chunk in chunks:
                    yield chunk
            return
        prompt_ids = self._prompt_ids(prompt)
        sequence = self._loaded.sampled.begin(prompt_ids, beginning)
        ids = [*prompt_ids, *sequence.ids]
        if sequence.ids and len(ids) >= self._context:  # a path at its limit is one that was cut
            yield Chunk(finish="length")
            return
        k = None if not prompt.signals else K if options.confidence else 0
        changes = options.sampling(self._sampling)
        decodes = self._decodes(stop=bool((self._sampling | changes).get("stop")))
        changes["detokenize"], path = not decodes, GrowingPath(sequence if decodes else None)
        params = self._params(len(ids), seed, k=k, request=None, changes=changes)
        try:
            generated = self._loaded.engine.generate(
                {"prompt_token_ids": ids}, params, f"rest-{next(self._request_numbers):08}"
            )
            async with aclosing(generated) as outputs:
                async for output in outputs:
                    grown = path.add(output, k)
                    if grown is not None:
                        yield grown
        except ValueError as error:
            raise EngineRejected(f"vLLM refused the request: {error}") from None
        last = path.last(len(ids))
        if not decodes:
            texts = sequence.add(path.ids)
            if last.stop_text:
                last.stop_text = to_end_of_token(last.stop_text, path.length, texts)
        self._loaded.sampled.keep(prompt_ids, sequence)
        yield last

    def _decodes(self, *, stop: bool) -> bool:
        """Whether the text of a path is decoded here as it grows, since vLLM does not have to look for a stop text.

        Here each token is decoded once, and then known; vLLM decodes every token, and each of its candidates.
        """
        return not stop and self._loaded.token_texts.exact

    @property
    def _context(self) -> int:
        return int(self._loaded.engine.model_config.max_model_len)

    def _prompt_ids(self, prompt: Prompt) -> list[int]:
        if self._encoded is None or self._encoded[0] != prompt.messages:  # the paths of a run share their prompt
            messages = [dict(message) for message in prompt.messages]
            ids = self._loaded.tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=True)
            # A copy: the caller may change a message and ask again.
            self._encoded = deepcopy(prompt.messages), list(ids["input_ids"] if isinstance(ids, Mapping) else ids)
        return self._encoded[1].copy()

    def _params(
        self,
        prompt_tokens: int,
        seed: int,
        *,
        k: int | None,
        request: WatchRequest | None,
        changes: Mapping[str, Any],
    ) -> Any:
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        remaining = self._context - prompt_tokens
        if remaining < 1:
            raise EngineRejected(
                f"the prompt has {prompt_tokens} tokens, but the model takes at most {self._context} in all"
            )
        sampling = {"max_tokens": self.max_path_tokens or remaining, "seed": seed, **self._sampling, **changes}
        group = {GROUP_ARGUMENT: self.stream_interval} if self.stream_interval > 1 else None
        try:
            return SamplingParams(
                **sampling | {"max_tokens": min(remaining, sampling["max_tokens"])},
                logprobs=k,
                flat_logprobs=True,
                output_kind=RequestOutputKind.DELTA if request is None else RequestOutputKind.FINAL_ONLY,
                extra_args=group if request is None else request.to_arguments(),
            )
        except (ValueError, TypeError) as error:  # a value or a name that vLLM does not know
            raise EngineRejected(f"vLLM refused the sampling parameters: {error}") from None
