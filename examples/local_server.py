"""A server for the examples that talk HTTP: the one that SUREENOUGH_BASE_URL names, else one of this program's own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def serving(*options: str) -> Iterator[str]:
    """The base URL of `sureenough serve` with these options; it samples from the built-in model by default."""
    given = os.environ.get("SUREENOUGH_BASE_URL")
    if given:
        yield given
        return
    command = [sys.executable, "-m", "sureenough", "serve", "--port", "0", "--paths", "16", *options]
    here = os.pathsep.join(filter(None, [str(Path(__file__).parent), os.environ.get("PYTHONPATH")]))
    environment = os.environ | {"PYTHONPATH": here}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as server:
        try:
            assert server.stdout is not None
            ready = server.stdout.readline()  # sureenough serves at http://127.0.0.1:PORT/v1, …
            if not ready:
                raise SystemExit("the server did not start")
            yield ready.split(" at ")[1].split(",")[0]
        finally:
            server.terminate()
