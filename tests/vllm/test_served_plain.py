"""Plain replies are the same with the plug-in and without: first without it, then with it.

SUREENOUGH_VLLM_PLUGINS= SUREENOUGH_VLLM_REPLIES=FILE .ci/vllm pytest tests/vllm/test_served_plain.py
SUREENOUGH_VLLM_REPLIES=FILE .ci/vllm pytest tests/vllm/test_served_plain.py
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import httpx
import pytest

URL, REPLIES = os.environ.get("SUREENOUGH_VLLM_URL"), os.environ.get("SUREENOUGH_VLLM_REPLIES")
pytestmark = pytest.mark.skipif(REPLIES is None, reason="needs a vLLM server with the plug-in, and one without")
CHAT: dict[str, Any] = {
    "model": "tiny",
    "messages": [{"role": "user", "content": "Compute 12 + 30."}],
    "max_tokens": 20,
}
REQUESTS: list[tuple[str, dict[str, Any]]] = [
    ("chat/completions", CHAT),
    ("chat/completions", CHAT | {"stream": True, "stream_options": {"include_usage": True}, "seed": 7}),
    ("chat/completions", CHAT | {"n": 2, "seed": 7, "logprobs": True, "top_logprobs": 2}),
    ("chat/completions", CHAT | {"model": "other"}),
    ("chat/completions", CHAT | {"model": "other@place"}),
    ("chat/completions", CHAT | {"messages": "@"}),
    ("completions", {"model": "tiny", "prompt": "1 + 1 @", "max_tokens": 5, "temperature": 0}),
    ("responses", {"model": "tiny", "input": "Compute 12 + 30.", "max_output_tokens": 20, "temperature": 0}),
]
VARIES = re.compile(
    r'"(id|created|created_at|completed_at|item_id|cached_tokens|created_cache_tokens)":\s*("[^"]*"|[\d.]+|null),?'
)


def test_plain_replies_are_the_same_with_the_plug_in_and_without() -> None:
    replies = []
    for path, body in REQUESTS:
        response = httpx.post(f"{URL}/{path}", json={"temperature": 0} | body, timeout=60)
        replies.append([path, response.status_code, response.headers["content-type"], VARIES.sub("", response.text)])
    malformed = httpx.post(f"{URL}/chat/completions", content=b"{@", headers={"Content-Type": "application/json"})
    replies.append(["malformed", malformed.status_code, "", malformed.text])
    file = Path(str(REPLIES))
    if os.environ.get("SUREENOUGH_VLLM_PLUGINS") == "":
        file.write_text(json.dumps(replies))
    for reply, wanted in zip(replies, json.loads(file.read_text()), strict=True):
        assert reply == wanted
