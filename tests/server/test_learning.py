"""The server learns from every consensus that reads confidence, shows what it learned, and keeps it in a folder."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from sureenough.errors import UsageError
from sureenough.server import ServerSettings
from sureenough.server.app import create
from tests.server.serving import ours
from tests.server.upstream import KEY, Upstream


def settings(upstream: Upstream, folder: Path) -> ServerSettings:
    return ServerSettings(upstream=upstream.url, upstream_key=KEY, window=4, state=folder)


def ask(url: str, model: str, seed: int = 0) -> dict[str, Any]:
    body = {"model": model, "messages": [{"role": "user", "content": "secret words?"}], "seed": seed,
            "sureenough": {"paths": 12}}  # fmt: skip
    reply = httpx.post(f"{url}/v1/chat/completions", json=body, timeout=60)
    assert reply.status_code == 200, reply.text
    content: dict[str, Any] = reply.json()
    return content


def learned(url: str) -> dict[str, Any]:
    entries = httpx.get(f"{url}/api/learned").json()["learned"]
    return {entry["strategy"]: entry for entry in entries}


def test_it_learns_shows_and_remembers(upstream: Upstream, tmp_path: Path) -> None:
    with ours(settings(upstream, tmp_path)) as (url, _):
        for seed in range(2):
            ask(url, "tiny@sure:delta=0", seed)
        ask(url, "tiny@sc")
        ask(url, "tiny@ddc:warmup=4")
        known = learned(url)
        assert {name: entry["questions"] for name, entry in known.items()} == {"sure:delta=0": 2, "ddc:warmup=4": 1}
        assert known["sure:delta=0"]["model"] == "tiny"
        assert set(known["sure:delta=0"]["signals"]) == {"tail", "mean_peak"}
        assert known["ddc:warmup=4"]["signals"]["tail"]["beta"] == 0.0, "ddc does not use it"
        metrics = httpx.get(f"{url}/metrics").text
        assert 'sureenough_learned_r{model="tiny",signal="tail",strategy="sure:delta=0",window="4"}' in metrics
        assert "sureenough_learned_questions" in metrics
    assert "secret" not in (tmp_path / "learned.json").read_text()
    with ours(settings(upstream, tmp_path)) as (url, _):
        assert learned(url) == known
        ask(url, "tiny@sure:delta=0")
        assert learned(url)["sure:delta=0"]["questions"] == 3


def test_a_window_that_runs_choose_is_the_one_that_is_learned_under(upstream: Upstream, tmp_path: Path) -> None:
    chosen = replace(settings(upstream, tmp_path), window=None)
    for start in (0, 2):  # the second server starts from the file
        with ours(chosen) as (url, _):
            windows = {ask(url, "tiny@sure:delta=0", seed)["sureenough"]["window"] for seed in range(start, start + 2)}
            (entry,) = httpx.get(f"{url}/api/learned").json()["learned"]
            assert {entry["window"]} == windows
            assert entry["questions"] == start + 2


def test_concurrent_requests_lose_no_update(upstream: Upstream, tmp_path: Path) -> None:
    with ours(settings(upstream, tmp_path)) as (url, _):
        with ThreadPoolExecutor(8) as clients:
            list(clients.map(lambda seed: ask(url, "tiny@sure", seed), range(16)))
        assert learned(url)["sure"]["questions"] == 16
    (entry,) = json.loads((tmp_path / "learned.json").read_text())["models"]
    assert entry["state"]["questions"] == 16


def test_a_damaged_file_is_refused(upstream: Upstream, tmp_path: Path) -> None:
    (tmp_path / "learned.json").write_text("{")
    with pytest.raises(UsageError, match=r"learned\.json is damaged"):
        create(settings(upstream, tmp_path))
    assert (tmp_path / "learned.json").read_text() == "{"
