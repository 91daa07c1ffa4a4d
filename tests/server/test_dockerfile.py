"""The Dockerfile's RUN lines in a clean virtual environment, then its CMD: it answers, as the image would."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import venv
from pathlib import Path

import httpx
import pytest

ROOT = Path(__file__).parents[2]
KEY = "a-key-for-the-image-0123"


def lines(verb: str) -> list[str]:
    """What stands behind this word."""
    return re.findall(rf"^{verb} (.+)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)


def test_the_image_would_listen_beyond_the_machine_with_keys_only() -> None:
    command = json.loads(lines("CMD")[0])
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SUREENOUGH_SERVE")}
    done = subprocess.run(
        [sys.executable, "-m", *command], capture_output=True, text=True, timeout=60, check=False, env=environment
    )
    assert done.returncode == 2
    assert "SUREENOUGH_SERVE_KEYS" in done.stderr


@pytest.mark.skipif(not os.environ.get("SUREENOUGH_DOCKERFILE"), reason="installs packages; .ci/run sets this")
def test_its_lines_in_a_clean_environment(tmp_path: Path) -> None:
    copy = tmp_path / "context"
    for name in ("src", "pyproject.toml", "README.md", "LICENSE"):
        source = ROOT / name
        shutil.copytree(source, copy / name) if source.is_dir() else shutil.copy(source, copy / name)
    venv.create(tmp_path / "venv", with_pip=True)
    bin_ = tmp_path / "venv" / "bin"
    environment = {"PATH": f"{bin_}:{os.environ['PATH']}", "HOME": str(tmp_path), "SUREENOUGH_SERVE_KEYS": KEY}
    environment |= {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "HTTP", "SSL"))}
    environment |= dict(pair.split("=", 1) for pair in lines("ENV"))
    for line in lines("RUN"):
        subprocess.run(shlex.split(line), cwd=copy, env=environment, check=True, timeout=900)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = json.loads(lines("CMD")[0])
    command += ["--port", str(port)]
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            assert "serves at" in server.stdout.readline()
            head = {"Authorization": f"Bearer {KEY}"}
            assert httpx.get(f"http://127.0.0.1:{port}/", headers=head).status_code == 200
            body = {"model": "built-in@sure", "messages": [{"role": "user", "content": "17 * 7 + 33 = ?"}]}
            reply = httpx.post(f"http://127.0.0.1:{port}/v1/chat/completions", json=body, headers=head, timeout=120)
            assert reply.json()["sureenough"]["answer"] == "152"
            licences = list(
                (tmp_path / "venv").glob("lib/*/site-packages/sureenough-*.dist-info/licenses/**/*LICENSE*")
            )
            assert len(licences) == 2, "ours, and that of the charting library"
        finally:
            server.terminate()
            server.wait(30)
    assert server.returncode == 0
