"""`sureenough serve-vllm`: without a vLLM that was tried it starts nothing and says why."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


def served(*words: str, site: str | None = None) -> subprocess.CompletedProcess[str]:
    setting = os.environ | ({"PYTHONPATH": site} if site else {})
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "sureenough", "serve-vllm", *words],
        capture_output=True, text=True, timeout=120, env=setting, check=False,
    )  # fmt: skip


def a_vllm(folder: Path, version: str) -> str:
    """Metadata of an installed vLLM, which is all that is looked at before it is started."""
    about = folder / f"vllm-{version}.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}\n")
    return str(folder)


def test_an_untried_version_is_refused(tmp_path: Path) -> None:
    done = served("some/model", site=a_vllm(tmp_path, "0.99.1"))
    assert done.returncode == 2
    assert "vLLM 0.99.1 was never tried" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_command_can_be_shown(tmp_path: Path) -> None:
    done = served("some/model", "--show", "--longest-window", "64", "--port", "9", site=a_vllm(tmp_path, "0.32.4"))
    assert done.returncode == 0
    for part in (
        "SUREENOUGH_VLLM_SOCKET=$(mktemp -d)/desk",
        "SUREENOUGH_VLLM_WINDOW=64",
        "--model some/model",
        "--logits-processors sureenough.engines.vllm.server.logits_processor:WatchProcessor",
        "--middleware sureenough.engines.vllm.server.middleware.RecordsMiddleware",
        "--port 9",
    ):
        assert part in done.stdout


@pytest.mark.parametrize("words", [(), ("model", "--longest-window", "0")])
def test_bad_words(words: tuple[str, ...], tmp_path: Path) -> None:
    assert served(*words, site=a_vllm(tmp_path, "0.32.0")).returncode == 2
