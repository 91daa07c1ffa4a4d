"""`sureenough serve-vllm`: without a version of vLLM that was tried, it starts nothing and says why."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
import typer

from sureenough.cli import serve_vllm
from sureenough.errors import UsageError
from tests.processes import sureenough


def served(folder: Path, *words: str, version: str = "0.32.4", socket: str = "") -> subprocess.CompletedProcess[str]:
    """The command beside metadata of an installed vLLM, which is all that is checked before it is started."""
    about = folder / f"vllm-{version}.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}\n")
    site = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))
    variables = {"PYTHONPATH": site, "SUREENOUGH_VLLM_SOCKET": socket}
    return sureenough("serve-vllm", *words, env=os.environ | variables)


def test_a_version_that_is_too_old_is_refused(tmp_path: Path) -> None:
    done = served(tmp_path, "some/model", version="0.25.1")
    assert done.returncode == 2
    assert "vLLM 0.25.1 is too old" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_command_can_be_shown(tmp_path: Path) -> None:
    done = served(tmp_path, "some/model", "--show", "--longest-window", "64", "--port", "9")
    assert done.returncode == 0
    for part in (
        "SUREENOUGH_VLLM_SOCKET=$(mktemp -d)/records.sock",
        "SUREENOUGH_VLLM_WINDOW=64",
        "--model some/model",
        "--logits-processors sureenough.vllm.processor:WatchProcessor",
        "--middleware sureenough.vllm.middleware.RecordsMiddleware",
        "--port 9",
    ):
        assert part in done.stdout


def test_the_shown_command_can_be_pasted_into_a_shell(tmp_path: Path) -> None:
    options = ["--compilation-config", '{"cudagraph_capture_sizes": [1, 2]}']
    done = served(tmp_path, "my models/small", "--show", *options, socket="/tmp/two words/records.sock")
    words = shlex.split(done.stdout)
    assert words[0] == "SUREENOUGH_VLLM_SOCKET=/tmp/two words/records.sock"
    assert words[words.index("--model") + 1] == "my models/small"
    assert words[-2:] == options


def test_several_api_servers_are_started_by_the_command_of_vllm(tmp_path: Path) -> None:
    """The module that serves otherwise ignores their number."""
    shown = served(tmp_path, "some/model", "--show", "--api-server-count", "4").stdout
    assert "-m vllm.entrypoints.cli.main serve some/model" in shown
    assert shown.rstrip().endswith("--api-server-count 4")


@pytest.mark.parametrize("words", [(), ("model", "--longest-window", "0")])
def test_bad_options(words: tuple[str, ...], tmp_path: Path) -> None:
    assert served(tmp_path, *words).returncode == 2


def test_a_server_that_cannot_be_started_leaves_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError("no such program")

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(os, "execvpe", refuse)
    monkeypatch.setattr(serve_vllm, "check_version", lambda: None)
    context = cast(typer.Context, SimpleNamespace(args=[]))
    with pytest.raises(UsageError, match="could not be started: no such program"):
        serve_vllm.command(context, "some/model")
    assert not list(tmp_path.iterdir())
