"""Arguments of watched requests, records of paths, and which modules each side imports."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from math import inf, nan
from typing import Any

import numpy as np
import pytest

from sureenough import vllm
from sureenough.core.pruning import Gate
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
        ({"sure_window": None}, "sure_window must be"),
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
    """VLLM imports it in every process, even if no request is watched."""
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


def encoded(*signals: float) -> str:
    return base64.b64encode(np.array(signals).tobytes()).decode()


TRACED = WatchRequest("a-long-key", 2, trace=True)


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("tokens", ["2", -1, True, 10**40, 2.0]),
        *((name, ["1", True, [], -1.0, 101.0, nan, inf, 10**400]) for name in ("lowest", "tail", "mean_conf")),
        ("mean_peak", ["1", True, [], -1.0, 1.1, nan, inf]),
        ("tier", [3, -1, [], True, 1.5, nan, 1]),  # 1: this path's gate cannot close
        ("signals", ["?", 3, "AAAA", [], *(encoded(0.5, 1.0, 0.5, conf) for conf in (nan, inf, -1.0, 65_505.0))]),
        ("signals", [encoded(0.5, 1.0, peak, 1.0) for peak in (nan, -0.1, 1.1)] + [encoded(*[0.5] * 6)]),
    ],
)  # fmt: skip
def test_every_field_of_a_record_is_checked(field: str, values: list[Any]) -> None:
    record = PathRecord(2, 1.0, 1.0, 0, np.ones((2, 2)), 1.0, 1.0).to_json()
    assert parse_summary(record, TRACED).tokens == 2
    for value in (*values, None):
        with pytest.raises(ValueError, match=f"malformed record .{field}."):
            parse_summary(record | {field: value}, TRACED)
    del record[field]
    with pytest.raises(ValueError, match=f"malformed record .{field}."):
        parse_summary(record, TRACED)
