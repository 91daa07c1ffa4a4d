"""Structured output with the official openai client: the vote is on JSON values, and the client parses the winner.

A model that writes JSON needs nothing but a URL. The built-in model only calculates, so this program brings an engine
that appends a JSON object to each of its paths, and serves that: `sureenough serve --engine structured_output:engine`.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace

from openai import OpenAI
from pydantic import BaseModel

import sureenough as se
from local_server import serving
from sureenough.answers import extract
from sureenough.engines import Engine
from sureenough.engines.base import End, TokenStream, as_part

QUESTION = "Solve for x: 13(12x-74)+13=59x+10885."


class Solution(BaseModel):
    """What the reply must look like."""

    x: int


class WritesJson(Engine):
    """Another engine's paths, each with its answer as a JSON object at the end."""

    window = 32

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    @asynccontextmanager
    async def open(self, *, parallel: int) -> AsyncIterator[Engine]:
        async with self.engine.open(parallel=min(parallel, 16)) as ready:  # memory for 16 paths; others wait
            yield WritesJson(ready)

    async def stream(self, prompt: se.Prompt, *, seed: int) -> TokenStream:
        text = ""
        async with aclosing(self.engine.stream(prompt, seed=seed)) as chunks:
            async for chunk in chunks:
                part = as_part(chunk)
                text += part.text
                if isinstance(part, End) and (answer := extract(text)) is not None and answer.isdecimal():
                    part = replace(part, text=part.text + "\n" + json.dumps({"x": int(answer)}))
                yield part


engine = WritesJson(se.Local())


def main() -> None:
    with serving("--engine", "structured_output:engine") as url, OpenAI(base_url=url, api_key="none") as client:
        reply = client.chat.completions.parse(
            model="structured_output:engine@ac",
            messages=[{"role": "user", "content": QUESTION}],
            response_format=Solution,
        )
        solution = reply.choices[0].message.parsed
        assert solution is not None, reply.choices[0].message.refusal
        print(repr(solution), solution.x * 2)
        details = (reply.model_extra or {})["sureenough"]
        print("votes:", details["votes"], "reason:", details["reason"])


if __name__ == "__main__":
    main()
