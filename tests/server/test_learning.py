"""The server learns from every consensus that reads confidence, shows what it learned, and keeps it in a folder."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from sureenough.errors import UsageError
from sureenough.server import ServerSettings
from sureenough.server.app import create
from tests.server.sending import vote
from tests.server.upstream import Upstream, before


def learned(url: str) -> dict[str, Any]:
    entries = httpx.get(f"{url}/api/learned").json()["learned"]
    return {entry["strategy"]: entry for entry in entries}


def test_it_learns_shows_and_remembers(upstream: Upstream, tmp_path: Path) -> None:
    with before(upstream, window=4, state=tmp_path) as (url, _):
        for seed in range(2):
            vote(url, "tiny@sure:delta=0", seed=seed, paths=12)
        vote(url, "tiny@sc", paths=12)
        vote(url, "tiny@ddc:warmup=4", paths=12)
        known = learned(url)
        assert {name: entry["questions"] for name, entry in known.items()} == {"sure:delta=0": 2, "ddc:warmup=4": 1}
        assert known["sure:delta=0"]["model"] == "tiny"
        assert set(known["sure:delta=0"]["signals"]) == {"tail", "mean_peak"}
        assert known["ddc:warmup=4"]["signals"]["tail"]["beta"] == pytest.approx(0.0), "ddc does not use it"
        latency = httpx.get(f"{url}/api/learned").json()["latency"]
        assert 0 < latency["mean"] <= latency["p95"] * latency["requests"]
        assert 'sureenough_latency_seconds{statistic="p95"}' in httpx.get(f"{url}/metrics").text
    assert "3 + 4" not in (tmp_path / "learned.json").read_text()
    with before(upstream, window=4, state=tmp_path) as (url, _):
        assert learned(url) == known
        vote(url, "tiny@sure:delta=0", paths=12)
        assert learned(url)["sure:delta=0"]["questions"] == 3


def test_a_window_that_runs_choose_is_the_one_that_is_learned_under(upstream: Upstream, tmp_path: Path) -> None:
    for start in (0, 2):  # the second server starts from the file
        with before(upstream, state=tmp_path) as (url, _):
            windows = {
                vote(url, "tiny@sure:delta=0", seed=seed, paths=12)["sureenough"]["window"]
                for seed in range(start, start + 2)
            }
            (entry,) = httpx.get(f"{url}/api/learned").json()["learned"]
            assert {entry["window"]} == windows
            assert entry["questions"] == start + 2


def test_concurrent_requests_lose_no_update(upstream: Upstream, tmp_path: Path) -> None:
    with before(upstream, window=4, state=tmp_path) as (url, _):
        with ThreadPoolExecutor(8) as clients:
            list(clients.map(lambda seed: vote(url, "tiny@sure", seed=seed, paths=12), range(16)))
        assert learned(url)["sure"]["questions"] == 16
    (entry,) = json.loads((tmp_path / "learned.json").read_text())["models"]
    assert entry["state"]["questions"] == 16


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "learned.json").write_text("{")
    with pytest.raises(UsageError, match=r"learned\.json is damaged"):
        create(ServerSettings(state=tmp_path))
    assert (tmp_path / "learned.json").read_text() == "{"
