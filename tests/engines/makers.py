"""Engines to be held to the contract, each by a maker.

A maker gives an engine whose paths are made by their seed, and tells how many of its paths are open; `trouble` asks for
paths that never end, that break in the middle, or that come without log-probabilities.
"""

from __future__ import annotations

import json
import os
import random
import re
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Literal, NamedTuple

import pytest
from yarl import URL

from sureenough.core.events import Token, path_seed
from sureenough.engines import Engine, Fake, Prompt
from sureenough.engines.fake import Step
from sureenough.engines.load_balancer import LoadBalancer
from sureenough.engines.local.engine import Local
from sureenough.engines.openai.client import OpenAI
from sureenough.engines.openai.logprobs import too_few
from sureenough.errors import EngineError, MissingLogprobs
from tests.engines.bridge import bridged
from tests.engines.misbehaving import Manner, serving
from tests.engines.relay import relay

BRIDGE = bridged() if "SUREENOUGH_INPROCESS" in os.environ else None
Trouble = Literal["none", "endless", "broken", "silent"]
PROMPT = Prompt.user("?")
SPEECHLESS = {"ignore_eos": True, "logit_bias": [["{", False], ["a", False]]}  # goes on, and never says its answer
NUMBERLESS = {"ignore_eos": True, "logit_bias": [[character, False] for character in "{a=0123456789"]}
SEEDS = [path_seed(0, n) for n in range(64)]


class Held(NamedTuple):
    """An engine on the bench, and how to see what it is doing."""

    engine: Engine
    running: Callable[[], int]
    tokens: int = 11  # of each path
    answer: str | None = "7"


def _signals(seed: int, n: int) -> list[Token]:
    draw = random.Random(seed)
    return [Token("", draw.random(), 20 * draw.random()) for _ in range(n)]


@asynccontextmanager
async def fake(trouble: Trouble) -> AsyncIterator[Held]:
    def script(seed: int) -> Iterable[Step]:
        if trouble == "silent":
            yield MissingLogprobs(too_few(0, 20))
        yield _signals(seed, 10)
        while trouble == "endless":
            yield _signals(seed, 10)
        if trouble == "broken":
            yield EngineError("broken")
        yield [Token(r"\boxed{7}", 0.5, 10.0)]

    def continuations(beginning: str, seed: int) -> Iterable[Step]:
        at = len(beginning)
        while trouble != "broken":
            yield [Token("so\nthen"[at % 7], 0.5, 10.0)]
            at += 1
        yield EngineError("broken")

    engine = Fake(script, continuations)
    yield Held(engine, lambda: engine.running)


@asynccontextmanager
async def http(trouble: Trouble, **options: Any) -> AsyncIterator[Held]:
    manner = {
        "none": Manner(tokens=8, answer="7"),
        "endless": Manner(tokens=20_000),
        "broken": Manner(cut_after=6),
        "silent": Manner(logprobs=False),
    }[trouble]
    async with serving(manner) as server:
        yield Held(OpenAI(server.url, "tiny", **options), lambda: server.running)


@asynccontextmanager
async def completions(trouble: Trouble) -> AsyncIterator[Held]:
    async with http(trouble, chat=False) as held:
        yield held


@asynccontextmanager
async def spread(trouble: Trouble) -> AsyncIterator[Held]:
    async with fake(trouble) as one, http(trouble) as other:
        yield (
            Held(LoadBalancer([one.engine]), one.running)
            if trouble == "none"
            else Held(LoadBalancer([one.engine, other.engine]), lambda: one.running() + other.running())
        )


@asynccontextmanager
async def vllm(trouble: Trouble) -> AsyncIterator[Held]:
    url = os.environ.get("SUREENOUGH_VLLM_URL")
    if url is None:
        pytest.skip("no vLLM here: `.ci/vllm pytest tests/engines/test_contract.py` installs and serves one")
    metrics = url.replace("/v1", "/metrics")

    def running() -> int:
        with urllib.request.urlopen(metrics, timeout=10) as reply:
            return int(sum(map(float, re.findall(rb"^vllm:num_requests_running\S* (\S+)", reply.read(), re.MULTILINE))))

    long = 1900 if trouble in ("endless", "broken") else 11
    # Hot, so that another seed is another path from the first few tokens on.
    options: dict[str, Any] = {"temperature": 2.0, "top_p": 1.0, "max_path_tokens": long, "inside": False}
    options["extra"] = {"ignore_eos": True}  # so that paths are as long as they should be
    if trouble == "silent":
        options["k"] = 50  # more than it gives
    async with _relayed(url, cut_after=20_000 if trouble == "broken" else None) as relayed:
        yield Held(OpenAI(relayed, "tiny", **options), running, tokens=long, answer=None)


@asynccontextmanager
async def sglang(trouble: Trouble) -> AsyncIterator[Held]:
    """SGLang, started by hand with `--served-model-name tiny`; seeds need `--enable-deterministic-inference`."""
    url = os.environ.get("SUREENOUGH_SGLANG_URL")
    if url is None:
        pytest.skip("no SGLang here: set SUREENOUGH_SGLANG_URL to the address of one, which needs a GPU")
    if trouble == "silent":
        pytest.skip("SGLang gives as many log-probabilities as are asked for")
    loads = url.replace("/v1", "/v1/loads")

    def running() -> int:
        with urllib.request.urlopen(loads, timeout=10) as reply:
            return sum(load["num_running_reqs"] + load["num_waiting_reqs"] for load in json.load(reply)["loads"])

    long = 1900 if trouble in ("endless", "broken") else 11
    options: dict[str, Any] = {"temperature": 2.0, "top_p": 1.0, "max_path_tokens": long, "extra": {"ignore_eos": True}}
    async with _relayed(url, cut_after=20_000 if trouble == "broken" else None) as relayed:
        yield Held(OpenAI(relayed, "tiny", **options), running, tokens=long, answer=None)


@asynccontextmanager
async def inprocess(trouble: Trouble) -> AsyncIterator[Held]:
    if BRIDGE is None:
        pytest.skip("no vLLM in this process; `.ci/inprocess` runs these tests with one")
    if trouble in ("broken", "silent"):
        pytest.skip("vLLM in this process breaks with it, and always has log-probabilities")
    # Pruned paths end by their end token, so it cannot be ignored where a run prunes; these seeds end late enough.
    more: dict[str, Any] = {"ignore_eos": True} if trouble == "endless" else {}
    long = 1900 if trouble == "endless" else 11
    engine = BRIDGE.sampled(max_path_tokens=long, temperature=2.0, **more)  # hot: other seeds, other paths
    yield Held(engine, lambda: engine.running, tokens=long, answer=None)


@asynccontextmanager
async def local(trouble: Trouble) -> AsyncIterator[Held]:
    """The built-in model in llama.cpp's server, in this process; a relay cuts its lines where they are to break."""
    long = 1900 if trouble in ("endless", "broken") else 24  # long enough to differ
    engine = Local(
        slots=8, context=8 * 2048, temperature=1.0, top_p=1.0, max_path_tokens=long, extra=SPEECHLESS,
        k=500 if trouble == "silent" else 20,  # it has no more candidates than words
    )  # fmt: skip
    async with engine.open(parallel=1) as ready:
        server = ready.server
        running = _llama_requests(server.url, server.key)
        if trouble != "broken":
            yield Held(engine, running, tokens=long, answer=None)
            return
        async with _relayed(server.url, cut_after=20_000) as relayed:
            yield Held(engine.wire(relayed, server.key), running, tokens=long, answer=None)


@asynccontextmanager
async def llama_server(trouble: Trouble) -> AsyncIterator[Held]:
    """The built-in model behind llama.cpp's own `llama-server`, a process of its own."""
    url = os.environ.get("SUREENOUGH_LLAMA_URL")
    if url is None:
        pytest.skip("no llama-server here: `.ci/llama` unpacks and starts one")
    long = 1900 if trouble in ("endless", "broken") else 24
    options: dict[str, Any] = {"temperature": 1.0, "top_p": 1.0, "max_path_tokens": long, "extra": NUMBERLESS}
    options["k"] = 500 if trouble == "silent" else 20
    running = _llama_requests(url)
    if trouble != "broken":
        yield Held(OpenAI(url, "tiny", **options), running, tokens=long, answer=None)
        return
    async with _relayed(url, cut_after=20_000) as relayed:
        yield Held(OpenAI(relayed, "tiny", **options), running, tokens=long, answer=None)


def _llama_requests(url: str, key: str | None = None) -> Callable[[], int]:
    """What counts the paths that llama.cpp's server is generating, by its own count."""
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    request = urllib.request.Request(url.replace("/v1", "/metrics"), headers=headers)

    def running() -> int:
        with urllib.request.urlopen(request, timeout=10) as reply:
            return int(re.findall(rb"^llamacpp:requests_processing (\d+)", reply.read(), re.MULTILINE)[0])

    return running


@asynccontextmanager
async def _relayed(url: str, cut_after: int | None) -> AsyncIterator[str]:
    """The URL of a relay to the server, which cuts every connection after so many bytes."""
    place = URL(url)
    assert place.host is not None
    assert place.port is not None
    async with relay(place.host, place.port, cut_after=cut_after) as port:
        yield f"http://127.0.0.1:{port}/v1"


ENGINES: dict[str, Callable[[Trouble], AbstractAsyncContextManager[Held]]] = {
    "fake": fake,
    "chat": http,
    "completions": completions,
    "spread": spread,
    "vllm": vllm,
    "sglang": sglang,
    "inprocess": inprocess,
    "local": local,
    "llama": llama_server,
}
