"""The official openai client, as anybody would make one; none of its connections outlives its test."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import openai
import pytest

from tests.engines.misbehaving import Manner

ASK: Any = [{"role": "user", "content": "What is 3 + 4?"}]
LONG = Manner(tokens=5000, delay=0.01)
CLIENT_KEY = "client-key-0123456789"


def client(url: str, key: str = "none", retries: int = 0) -> openai.OpenAI:
    """As anybody would make one."""
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


def extra(reply: Any) -> dict[str, Any]:
    """The `sureenough` object."""
    found: dict[str, Any] = reply.model_extra["sureenough"]
    return found
