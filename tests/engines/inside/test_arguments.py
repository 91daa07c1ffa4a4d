"""What requests may ask of the monitor, and what they are told when they ask for something else."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from sureenough.core.pruning import Gate
from sureenough.engines.vllm.protocol import LONGEST, WatchRequest, prunes, read
from sureenough.engines.vllm.versions import installed, refuse_untried
from sureenough.errors import UsageError

GOOD: dict[str, Any] = {"sure_key": "a-key-of-its-own", "sure_window": 64}


@pytest.mark.parametrize(
    "asked",
    [
        WatchRequest("some-key-1", 64),
        WatchRequest("some-key-2", 1, Gate(trust=0.9, drop=3.25, risk=0.6, eta=0.25)),
        WatchRequest("some-key_3", 2048, Gate(drop=1 / 3), trace=True),
    ],
)
def test_what_is_written_is_read(asked: WatchRequest) -> None:
    assert read(json.loads(json.dumps(asked.written()))) == asked


@pytest.mark.parametrize("other", [None, {}, {"somebody": "else's"}])
def test_others_requests_are_none_of_ours(other: dict[str, Any] | None) -> None:
    assert read(other) is None


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"sure_windwo": 3}, "known: sure_key, sure_window, sure_trace, sure_trust"),
        ({"sure_key": "short"}, "8 to 64 letters"),
        ({"sure_key": "../../etc/passwd"}, "8 to 64 letters"),
        ({"sure_key": 12345678}, "8 to 64 letters"),
        ({"sure_window": 0}, "from 1 to 2048"),
        ({"sure_window": 4096}, f"the server's {LONGEST}"),
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
    assert read(GOOD) is not None
    with pytest.raises(UsageError, match=words):
        read(GOOD | change)


def test_a_window_is_needed() -> None:
    with pytest.raises(UsageError, match="sure_window is None"):
        read({"sure_key": "a-key-of-its-own"})


def test_the_servers_longest_window_is_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LONGEST, "many")
    with pytest.raises(UsageError, match="whole number"):
        read(GOOD)


@pytest.mark.parametrize(
    ("gate", "may"), [(Gate(), False), (Gate(trust=0.1), False), (Gate(drop=1), True), (Gate(risk=0.5), True)]
)
def test_gates_that_can_end_a_path(gate: Gate, may: bool) -> None:
    assert prunes(gate) is may


@pytest.mark.parametrize("found", ["0.32", "0.32.0", "0.32.1+cpu"])
def test_versions_that_were_tried(found: str) -> None:
    refuse_untried(found)


@pytest.mark.parametrize("found", ["0.31.9", "0.33.0", "0.320", "1.0", "0.3"])
def test_other_versions_are_refused(found: str) -> None:
    with pytest.raises(UsageError, match=r"never tried .* tried: 0\.32"):
        refuse_untried(found)


def test_a_missing_vllm_is_said() -> None:
    with pytest.raises(UsageError, match="not installed"):
        refuse_untried(None)
    assert installed() is None or installed() != ""


@pytest.mark.parametrize(
    "name", ["sureenough", "sureenough.cli", "sureenough.engines.vllm.client", "sureenough.engines.openai.client"]
)
def test_nobody_needs_torch_who_does_not_watch(name: str) -> None:
    heavy = f"import sys, {name}; print(sorted({{'torch', 'triton', 'vllm'}} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", heavy], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_the_part_inside_the_server_needs_little() -> None:
    """It runs in vLLM's environment, where sureenough's own dependencies may be missing."""
    parts = ["protocol", "server.records", "server.records_socket", "server.middleware", "versions"]
    code = f"import sys; {'; '.join(f'import sureenough.engines.vllm.{part}' for part in parts)}; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"pyarrow", "aiohttp", "typer", "msgspec", "scipy", "torch"} & set(loaded)
