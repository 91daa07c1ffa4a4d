"""An OpenAI-compatible server that plays recorded paths: real confidence, the words of a script, no model."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import AsyncIterator
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route, Router

from sureenough.core.events import path_seed
from sureenough.data import BUILTIN_POOL
from sureenough.pools import Pool, RecordedPath

WORDS = "We first write the sum as a product , then divide both sides by 7 and look at what is left : ".split()
CHUNK = 8


class Recorded:
    """Plays one question's paths, by the seeds that a run with seed 0 gives them."""

    def __init__(self, question: int, delay: float, logprobs: bool = True) -> None:
        pool = list(Pool(BUILTIN_POOL))
        self.paths = pool[question].paths
        self.numbers = {path_seed(0, number): number for number in range(512)}
        self.delay, self.logprobs = delay, logprobs

    def app(self) -> Router:
        return Router(
            routes=[Route("/v1/chat/completions", self.complete, methods=["POST"]), Route("/v1/models", self.models)]
        )

    async def models(self, request: Request) -> Response:
        return JSONResponse({"data": [{"id": "recorded"}]})

    async def complete(self, request: Request) -> Response:
        """A path, as it was recorded."""
        body = json.loads(await request.body())
        path = self.paths[self.numbers.get(body["seed"], 0) % len(self.paths)]
        return StreamingResponse(self.play(path), media_type="text/event-stream")

    async def play(self, path: RecordedPath) -> AsyncIterator[str]:
        """Its tokens, a few at a time, then its answer."""
        signals = list(zip(path.peak, path.conf, strict=True))
        words = [f"{WORDS[at % len(WORDS)]} " for at in range(len(signals))]
        words[-1] = "no answer" if path.answer is None else f"So \\boxed{{{path.answer}}}"
        for at in range(0, len(words), CHUNK):
            entries = [
                entry(word, *signal)
                for word, signal in zip(words[at : at + CHUNK], signals[at : at + CHUNK], strict=True)
            ]
            choice: dict[str, Any] = {"index": 0, "delta": {"content": "".join(words[at : at + CHUNK])}}
            choice["finish_reason"] = "stop" if at + CHUNK >= len(words) else None
            if self.logprobs:
                choice["logprobs"] = {"content": entries}
            chunk: dict[str, Any] = {"choices": [choice]}
            if choice["finish_reason"]:
                chunk["usage"] = {"prompt_tokens": 1, "completion_tokens": len(words)}
            yield f"data: {json.dumps(chunk)}\n\n"
            await asyncio.sleep(self.delay)
        yield "data: [DONE]\n\n"


def entry(word: str, peak: float, conf: float) -> dict[str, Any]:
    """Twenty candidates with this largest probability and this mean."""
    top = math.log(max(1e-9, float(peak)))
    rest = min(top, (-20 * float(conf) - top) / 19)
    return {"token": word, "top_logprobs": [{"logprob": top}, *[{"logprob": rest}] * 19]}
