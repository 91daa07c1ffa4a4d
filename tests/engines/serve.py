"""The misbehaving server as a process: `python -m tests.engines.serve tokens=40 answer=7`; prints its URL."""

from __future__ import annotations

import ast
import asyncio
import sys
from typing import Any

from tests.engines.misbehaving import Manner, serving


def _value(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


async def main(words: list[str]) -> None:
    """Serve until killed."""
    said = {name: _value(value) for name, _, value in (word.partition("=") for word in words)}
    manner = Manner(**said | ({"answer": str(said["answer"])} if "answer" in said else {}))
    async with serving(manner) as server:
        print(server.url, flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
