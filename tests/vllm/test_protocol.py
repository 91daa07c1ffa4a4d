"""Arguments of watched requests, records of paths, and which modules each side imports."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from sureenough import vllm
from sureenough.core.pruning import Gate
from sureenough.engines.base import WatchOptions
from sureenough.engines.watch.protocol import (
    PathRecord,
    WatchRequest,
    can_prune,
    parse_summary,
    parse_watch_arguments,
)
from sureenough.errors import UsageError

GOOD: dict[str, Any] = {"sure_key": "a-key-of-its-own", "sure_window": 64}


@pytest.mark.parametrize(
    "request_",
    [
        WatchRequest("some-key-1", 64),
        WatchRequest("some-key-2", 1, Gate(trust=0.9, drop=3.25, risk=0.6, eta=0.25)),
        WatchRequest("some-key_3", 2048, Gate(drop=1 / 3), trace=True),
    ],
)
def test_arguments_round_trip(request_: WatchRequest) -> None:
    assert parse_watch_arguments(json.loads(json.dumps(request_.to_arguments()))) == request_


@pytest.mark.parametrize("other", [None, {}, {"other": "argument"}])
def test_requests_without_our_arguments_are_not_watched(other: dict[str, Any] | None) -> None:
    assert parse_watch_arguments(other) is None


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"sure_windwo": 3}, "known: sure_key, sure_window, sure_trace, sure_trust"),
        ({"sure_key": "short"}, "8 to 64 letters"),
        ({"sure_key": "../../etc/passwd"}, "8 to 64 letters"),
        ({"sure_key": 12345678}, "8 to 64 letters"),
        ({"sure_window": None}, "sure_window is None"),
        ({"sure_window": 0}, "from 1 to 2048"),
        ({"sure_window": 4096}, "from 1 to 2048"),
        ({"sure_window": 2.5}, "a whole number"),
        ({"sure_window": True}, "a whole number"),
        ({"sure_window": "64"}, "a whole number"),
        ({"sure_drop": "low"}, "a finite number"),
        ({"sure_drop": float("nan")}, "a finite number"),
        ({"sure_risk": float("inf")}, "left out to mean never"),
        ({"sure_trust": True}, "a finite number"),
        ({"sure_eta": -1}, "at least 0"),
        ({"sure_trace": 2}, "0 or 1"),
    ],
)
def test_bad_arguments_are_refused_by_name(change: dict[str, Any], words: str) -> None:
    assert parse_watch_arguments(GOOD) is not None
    with pytest.raises(UsageError, match=words):
        parse_watch_arguments(GOOD | change)


@pytest.mark.parametrize(
    ("gate", "may"), [(Gate(), False), (Gate(trust=0.1), False), (Gate(drop=1), True), (Gate(risk=0.5), True)]
)
def test_gates_that_can_end_a_path(gate: Gate, may: bool) -> None:
    assert can_prune(gate) is may


@pytest.mark.parametrize(
    ("found", "problem"),
    [
        ("0.32", None), ("0.32.0", None), ("0.32.1+cpu", None),
        *((newer, f"vLLM {newer} .* tests itself") for newer in ("0.33.0", "0.320", "1.0", "dev")),
        *((older, f"vLLM {older} is too old .* 0.32 or later") for older in ("0.31.9", "0.3", "0.9.2")),
        (None, "not installed"),
    ],
)  # fmt: skip
def test_versions_of_vllm(found: str | None, problem: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vllm, "installed_version", lambda: found)
    if problem is None:
        vllm.check_version()
    elif "tests itself" in problem:
        with pytest.warns(UserWarning, match=problem):
            vllm.check_version()
    else:
        with pytest.raises(UsageError, match=problem):
            vllm.check_version()


@pytest.mark.parametrize(
    "name", ["sureenough", "sureenough.cli", "sureenough.engines.watch.client", "sureenough.engines.openai.client"]
)
def test_clients_do_not_import_torch_or_the_server_part(name: str) -> None:
    modules = loaded_by(name)
    assert not {"torch", "triton", "vllm"} & modules
    assert not [module for module in modules if module.startswith("sureenough.vllm")]


HEAVY = {"pyarrow", "aiohttp", "httpx", "typer", "rich", "msgspec", "scipy"}


def test_the_engines_part_imports_only_numpy() -> None:
    """VLLM imports it in every process, also if nobody asks for it."""
    parts = [f"sureenough.vllm.{part}" for part in ("records", "scheduler", "processor", "plugin")]
    assert not (HEAVY | {"torch"}) & loaded_by(*parts)


def test_the_monitor_imports_only_numpy_and_torch() -> None:
    """Torch is replaced by an empty module, so that only our own imports count."""
    parts = ["monitor"]
    torch = "import sys, types; t = sys.modules['torch'] = types.ModuleType('torch')"
    names = "t.float32 = t.Tensor = t.dtype = t.device = None"
    assert not HEAVY & loaded_by(*(f"sureenough.vllm.{part}" for part in parts), before=f"{torch}; {names}")


def loaded_by(*names: str, before: str = "import sys") -> set[str]:
    """Modules that a new interpreter has loaded after importing these."""
    code = f"{before}; {'; '.join(f'import {name}' for name in names)}; import sys; print(*sys.modules)"
    return set(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split())


@pytest.mark.parametrize(
    "change",
    [
        {"tokens": "2"}, {"tokens": -1}, {"tokens": True}, {"tokens": 3}, {"lowest": None}, {"lowest": 10**400},
        {"tail": []}, {"tier": 3}, {"tier": []}, {"signals": "?"}, {"signals": 3}, {"signals": "AAAA"},
        {"signals": PathRecord(2, 1.0, 1.0, 0, np.full((2, 2), np.nan), 1.0, 1.0).to_json()["signals"]},
    ],
)  # fmt: skip
def test_malformed_records_are_value_errors(change: dict[str, Any]) -> None:
    record = PathRecord(2, 1.0, 1.0, 0, np.ones((2, 2)), 1.0, 1.0).to_json()
    assert parse_summary(record, 2).tokens == 2
    with pytest.raises((ValueError, TypeError)):
        parse_summary(record | change, 2)
    for name in ("tokens", "lowest", "tail", "tier", "mean_peak", "mean_conf"):
        with pytest.raises(ValueError, match="malformed"):
            parse_summary({other: value for other, value in record.items() if other != name}, 2)


def test_a_trend_window_is_refused_by_name() -> None:
    watch = WatchOptions(8, Gate(risk=1.0, trend_window=4))
    with pytest.raises(UsageError, match="trend_window=4 cannot be watched inside vLLM"):
        WatchRequest.of("a-long-key", watch)
