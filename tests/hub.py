"""As much of the Hugging Face hub as its client asks for, on this machine."""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

COMMIT = "a" * 40  # that a branch is at


class Hub(ThreadingHTTPServer):
    """Files by their path; what is asked for below a gated path is refused."""

    def __init__(self, files: Mapping[str, bytes], gated: str, missing: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.files, self.gated, self.missing = {"/": b"hello", **files}, gated, missing
        self.asked: list[str] = []


class _Handler(BaseHTTPRequestHandler):
    server: Hub

    def do_HEAD(self) -> None:
        self.answer(body=False)

    def do_GET(self) -> None:
        self.answer(body=True)

    def answer(self, *, body: bool) -> None:
        hub, content = self.server, self.server.files.get(self.path, b"")
        hub.asked.append(f"{self.command} {self.path}")
        refused = bool(hub.gated) and self.path.startswith(hub.gated)
        self.send_response(403 if refused else 200 if content else 404)
        if content:
            revision = re.search(r"/resolve/([0-9a-f]{40})/", self.path)
            self.send_header("ETag", f'"{hashlib.sha256(content).hexdigest()}"')
            self.send_header("X-Repo-Commit", revision[1] if revision else COMMIT)
        else:
            self.send_header("X-Error-Code", "GatedRepo" if refused else hub.missing)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content if body else b"")

    def log_message(self, format: str, *words: object) -> None:
        """Nothing on the test's screen."""


@contextmanager
def serving_hub(files: Mapping[str, bytes], *, gated: str = "", missing: str = "EntryNotFound") -> Iterator[Hub]:
    with Hub(files, gated, missing) as hub:
        threading.Thread(target=hub.serve_forever, daemon=True).start()
        yield hub
        hub.shutdown()
