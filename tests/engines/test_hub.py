"""Models of the hub: names read, files chosen, downloads from a hub on this machine, and clear words without one."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from sureenough.engines.local.hub import HubFile, choose_file, parse_hub_name
from sureenough.errors import UsageError
from tests.engines.ggufs import QWEN, head

FILES = {"README.md": b"hello", "m-Q4_K_M.gguf": head(QWEN), "m-Q8_0.gguf": head(QWEN) + b"8", "mmproj-m.gguf": b"x"}
COMMIT = "a" * 40


class Hub(BaseHTTPRequestHandler):
    """As much of the hub as one repository needs."""

    def do_HEAD(self) -> None:
        """What a file is."""
        self._answer(False)

    def do_GET(self) -> None:
        """The repository, or a file."""
        self._answer(True)

    def _answer(self, whole: bool) -> None:
        name = self.path.rpartition("/")[2]
        if self.path.startswith("/api/models/some/model"):
            siblings = [{"rfilename": file} for file in FILES]
            self._send({}, json.dumps({"id": "some/model", "sha": COMMIT, "siblings": siblings}).encode())
        elif self.path.startswith("/some/model/resolve/") and name in FILES:
            tag = hashlib.sha256(FILES[name]).hexdigest()
            self._send({"ETag": f'"{tag}"', "X-Repo-Commit": COMMIT}, FILES[name], whole)
        else:
            self.send_response(404)
            self.send_header("X-Error-Code", "RepoNotFound")
            self.send_header("Content-Length", "0")
            self.end_headers()

    def _send(self, headers: dict[str, str], body: bytes, whole: bool = True) -> None:
        self.send_response(200)
        for key, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(key, value)
        self.end_headers()
        self.wfile.write(body if whole else b"")

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def hub() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Hub) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def fetched(text: str, endpoint: str, home: Path) -> subprocess.CompletedProcess[str]:
    """In a process of its own: the hub's client reads its settings once."""
    code = f"from sureenough.engines.local.hub import fetch\nprint(fetch({text!r}))"
    env = {name: value for name, value in os.environ.items() if not name.lower().endswith("proxy")}
    env |= {"HF_ENDPOINT": endpoint, "HF_HOME": str(home), "HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False, env=env
    )


@pytest.mark.parametrize(
    ("text", "repository", "file"),
    [
        ("hf:a/b", "a/b", None),
        ("hf:a/b-GGUF:q4.gguf", "a/b-GGUF", "q4.gguf"),
        ("hf:a/b:sub/q.gguf", "a/b", "sub/q.gguf"),
    ],
)
def test_names(text: str, repository: str, file: str | None) -> None:
    assert parse_hub_name(text) == HubFile(repository, file)


@pytest.mark.parametrize("text", ["hf:", "hf:a", "hf:a/b/c", "hf:a/b:", "hf:../x y"])
def test_names_that_are_not_valid(text: str) -> None:
    with pytest.raises(UsageError, match="it looks like hf:OWNER/NAME"):
        parse_hub_name(text)


@pytest.mark.parametrize(
    ("files", "wish", "found"),
    [
        (["a.gguf", "README.md"], None, "a.gguf"),
        (["a-Q4.gguf", "a-Q8.gguf"], "q8", "a-Q8.gguf"),
        (["a-Q4.gguf", "mmproj-a.gguf"], None, "a-Q4.gguf"),
        (["a-00001-of-00002.gguf", "a-00002-of-00002.gguf"], None, "a-00001-of-00002.gguf"),
        ([f"a-{n:05}-of-00012.gguf" for n in range(1, 13)], None, "a-00001-of-00012.gguf"),
        (["tiny.gguf", "very-tiny.gguf"], "tiny.gguf", "tiny.gguf"),
    ],
)
def test_the_file_that_a_name_selects(files: list[str], wish: str | None, found: str) -> None:
    assert choose_file(files, HubFile("a/b", wish)) == found


@pytest.mark.parametrize(
    ("files", "wish", "says"),
    [
        (
            ["a-Q4.gguf", "a-Q8.gguf"],
            None,
            r"has 2 files; choose one, as in hf:a/b:a-Q4.gguf. It has: a-Q4",
        ),
        (["a-Q4.gguf"], "q5", r"has no file like 'q5'.* It has: a-Q4.gguf"),
        (["model.safetensors"], None, "has no GGUF files"),
    ],
)
def test_the_file_is_not_clear(files: list[str], wish: str | None, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        choose_file(files, HubFile("a/b", wish))


def test_a_download_and_the_second_time(hub: str, tmp_path: Path) -> None:
    done = fetched("hf:some/model:q8_0", hub, tmp_path)
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()).read_bytes() == FILES["m-Q8_0.gguf"]
    again = fetched("hf:some/model:m-Q8_0.gguf", "http://127.0.0.1:9", tmp_path)
    assert (again.returncode, again.stdout) == (0, done.stdout), "what is here needs no network"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("hf:some/model", "UsageError: some/model has 2 files; choose one"),
        ("hf:some/other", "UsageError: the hub has no some/other, or it needs a token (HF_TOKEN)"),
    ],
)
def test_what_the_hub_does_not_have(hub: str, text: str, says: str, tmp_path: Path) -> None:
    assert says in fetched(text, hub, tmp_path).stderr


def test_without_a_network_the_error_names_what_is_here(tmp_path: Path) -> None:
    said = fetched("hf:some/model:m-Q8_0.gguf", "http://127.0.0.1:9", tmp_path).stderr
    assert "EngineUnavailable: the hub cannot be reached for some/model" in said
    assert "give the path of a GGUF file, or no model for the built-in one" in said
