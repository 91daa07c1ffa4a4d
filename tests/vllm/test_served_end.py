"""A key, and the end of an engine; the last test kills it, so these have a server of their own.

SUREENOUGH_VLLM_KEY=a-key-of-the-operator .ci/vllm pytest tests/vllm/test_served_end.py
"""

from __future__ import annotations

import os
import signal
import threading
import time

import httpx
import psutil
import pytest

URL, KEY = os.environ.get("SUREENOUGH_VLLM_URL"), os.environ.get("SUREENOUGH_VLLM_KEY")
pytestmark = pytest.mark.skipif(KEY is None, reason="needs a vLLM server with a key: see .ci/vllm")
QUESTION = [{"role": "user", "content": "Compute 12 + 30."}]
BODY = {"model": "tiny@sc", "messages": QUESTION, "max_tokens": 60, "sureenough": {"paths": 3}}


def post(path: str, key: str | None, body: object = BODY) -> httpx.Response:
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    return httpx.post(f"{URL}/{path}", json=body, headers=headers, timeout=120)


@pytest.mark.parametrize("key", [None, "another-key"])
def test_without_the_key_nothing_of_ours_responds(key: str | None) -> None:
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    for path in ("chat/completions", "completions", "responses", "sureenough/api/runs", "sureenough/paths"):
        assert post(path, key).status_code == 401
    for path in (
        "models",
        "sureenough/",
        "sureenough/monitor",
        "sureenough/paths/a-key-of-a-path",
        "sureenough/metrics",
    ):
        assert httpx.get(f"{URL}/{path}", headers=headers).status_code == 401
    root = str(URL).removesuffix("/v1")
    for path in ("sureenough/", "api/options", "runs"):
        assert httpx.get(f"{root}/{path}").status_code == 404


def test_with_the_key_all_of_it_does() -> None:
    assert post("chat/completions", KEY).status_code == 200
    assert post("sureenough/paths", KEY, {"keys": ["unknown-path"]}).json() == {"tokens": [None], "tails": [None]}


def test_an_engine_that_is_killed_ends_every_run_with_an_error() -> None:
    server = psutil.Process(int(os.environ["SUREENOUGH_VLLM_PID"]))
    engine = next(child for child in server.children(recursive=True) if "EngineCore" in child.name())

    def kill() -> None:
        time.sleep(2)
        engine.send_signal(signal.SIGKILL)

    threading.Thread(target=kill).start()
    long = BODY | {"max_tokens": 1900, "ignore_eos": True, "sureenough": {"paths": 16, "parallel": 16}}
    began = time.monotonic()
    try:
        status = post("chat/completions", KEY, long).status_code
    except httpx.TransportError:  # vLLM's server ends itself when its engine has gone
        status = 500
    assert status >= 500
    assert time.monotonic() - began < 60
