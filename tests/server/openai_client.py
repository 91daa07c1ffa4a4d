"""The official openai client, as anybody would make one; none of its connections outlives its test."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import openai
import pytest

from tests.engines.misbehaving import Manner

ASK: Any = [{"role": "user", "content": "What is 3 + 4?"}]
LONG = Manner(tokens=20_000, delay=0.01)


def client(url: str, key: str = "none", retries: int = 0) -> openai.OpenAI:
    made = openai.OpenAI(base_url=f"{url}/v1", api_key=key, max_retries=retries, timeout=60)
    _open.append(made)
    return made


_open: list[openai.OpenAI] = []


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    """No connection outlives its test."""
    yield
    while _open:
        _open.pop().close()


def chat(url: str, model: str = "tiny@sc", *, key: str = "none", sureenough: Any = None, **fields: Any) -> Any:
    """A chat completion; `sureenough` is sent as the object of that name."""
    more = {} if sureenough is None else {"extra_body": {"sureenough": sureenough}}
    return client(url, key).chat.completions.create(model=model, **{"messages": ASK} | more | fields)


def extra(reply: Any) -> dict[str, Any]:
    found: dict[str, Any] = reply.model_extra["sureenough"]
    return found
