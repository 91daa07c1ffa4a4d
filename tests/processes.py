"""`sureenough` as a process of its own, without a second of imports: it is forked from a process that has them.

Every command is a real process with its own folder, environment, standard streams and exit code, so tests see what a
user sees. Tests of what is imported, and of closed or broken streams, start an interpreter of their own instead.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import resource
import select
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, NoReturn, Self, TextIO

from sureenough.__main__ import main
from tests.requirements import save_time

PRELOADED = ("aiohttp", "numpy", "prometheus_client", "pyarrow.parquet", "rich.live", "scipy.special", "scipy.stats",
             "sureenough.bench.paper", "sureenough.server.app", "uvicorn")  # fmt: skip
SERVE = "import sys; from tests.processes import serve; serve(int(sys.argv[1]))"
ROOT = Path(__file__).parents[1]
CLEAN = {name: value for name, value in os.environ.items() if not name.startswith(("SUREENOUGH", "OPENAI", "HF_"))}
"""An environment without what the user of this machine has set for sureenough."""


class Running:
    """A command that was started, with the methods of a Popen."""

    stdout: TextIO
    stderr: TextIO
    returncode: int | None = None

    def __init__(self, request: Mapping[str, Any], streams: list[int]) -> None:
        self._reply, theirs = socket.socketpair()
        self._lines = self._reply.makefile("r")
        with theirs, TemporaryFile() as sent:
            sent.write(json.dumps(request).encode())
            sent.seek(0)
            socket.send_fds(_server(), [b"x"], [sent.fileno(), *streams, theirs.fileno()])
        self.pid = int(self._lines.readline())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.wait()
        self.stdout.close()
        self.stderr.close()

    def poll(self) -> int | None:
        """The exit code, or None while it runs."""
        if self.returncode is None and select.select([self._reply], [], [], 0)[0]:
            self.wait()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """The exit code; a command that takes too long is killed."""
        if self.returncode is None:
            if not select.select([self._reply], [], [], timeout)[0]:
                self.kill()
                raise subprocess.TimeoutExpired("sureenough", timeout or 0)
            self.returncode = int(self._lines.readline())
            self._lines.close()
            self._reply.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Nothing is sent to a command that has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(signal.SIGKILL)

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """The rest of what it writes, until it ends."""
        with ThreadPoolExecutor(2) as readers:
            out, err = (readers.submit(stream.read) for stream in (self.stdout, self.stderr))
            self.wait(timeout)
            return out.result(), err.result()


def start(
    *words: str | Path, env: Mapping[str, str] | None = None, cwd: Path | None = None, largest_file: int | None = None
) -> Running:
    """Start `sureenough WORDS`; tests read what it writes from pipes."""
    out, err = os.pipe(), os.pipe()
    with open(os.devnull) as stdin:
        running = Running(_request(words, env, cwd, largest_file), [stdin.fileno(), out[1], err[1]])
    os.close(out[1])
    os.close(err[1])
    running.stdout, running.stderr = os.fdopen(out[0]), os.fdopen(err[0])
    return running


@contextmanager
def begun(*words: str | Path, env: Mapping[str, str] | None = None) -> Iterator[Running]:
    """A command that runs until the block ends."""
    with start(*words, env=env) as server:
        try:
            yield server
        finally:
            server.send_signal(signal.SIGINT)
            server.communicate(timeout=20)
    assert server.returncode == 0


def sureenough(
    *words: str | Path,
    given: str | bytes = "",
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    largest_file: int | None = None,
    timeout: float = 120,
) -> subprocess.CompletedProcess[str]:
    """What `sureenough WORDS` writes and its exit code; `given` is its standard input."""
    with TemporaryFile() as stdin, TemporaryFile() as stdout, TemporaryFile() as stderr:
        stdin.write(given.encode() if isinstance(given, str) else given)
        stdin.seek(0)
        streams = [stdin.fileno(), stdout.fileno(), stderr.fileno()]
        code = Running(_request(words, env, cwd, largest_file), streams).wait(timeout)
        stdout.seek(0)
        stderr.seek(0)
        return subprocess.CompletedProcess(words, code, stdout.read().decode(), stderr.read().decode())


def printed(*words: str | Path, **settings: Any) -> str:
    """What a command prints; it must succeed."""
    done = sureenough(*words, **settings)
    assert done.returncode == 0, done
    return done.stdout


def configured(folder: Path, text: str) -> dict[str, str]:
    """The variable that names a sureenough.toml with this text."""
    file = folder / "sureenough.toml"
    file.write_text(text)
    return {"SUREENOUGH_CONFIG": str(file)}


def refused(*words: str | Path, env: Mapping[str, str] | None = None, cwd: Path | None = None) -> str:
    """The message of a command that must end with exit code 2 and no traceback."""
    done = sureenough(*words, env=env, cwd=cwd)
    assert done.returncode == 2, done
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    return " ".join(done.stderr.split())


def _request(
    words: tuple[str | Path, ...], env: Mapping[str, str] | None, cwd: Path | None, largest_file: int | None
) -> dict[str, Any]:
    variables = dict(os.environ | {"NO_COLOR": "1"} if env is None else env)
    texts = [str(word) for word in words]
    return {"words": texts, "env": variables, "cwd": str(cwd or Path.cwd()), "largest_file": largest_file}


@cache
def _server() -> socket.socket:
    """The socket of the process that forks; it ends with this one."""
    ours, theirs = socket.socketpair()
    with theirs:
        command = [sys.executable, "-c", SERVE, str(theirs.fileno())]
        null = subprocess.DEVNULL
        process = subprocess.Popen(command, pass_fds=[theirs.fileno()], cwd=ROOT, stdin=null, stdout=null)
    atexit.register(process.wait)
    atexit.register(ours.close)
    return ours


def serve(number: int) -> None:
    """Fork for every request that arrives; ends when the tests do."""
    from sureenough.cli import VERBS, app, module_name

    for name in (*PRELOADED, *(f"sureenough.cli.{module_name(verb)}" for verb in VERBS)):
        import_module(name)
    save_time()
    app(["answers", "1", "1"], standalone_mode=False)  # typer imports most of itself when it reads the first command
    gc.collect()
    gc.freeze()
    interrupt = signal.signal(signal.SIGINT, signal.SIG_IGN)
    with socket.socket(fileno=number) as requests:
        while files := socket.recv_fds(requests, 1, 5)[1]:
            if not os.fork():
                requests.close()
                signal.signal(signal.SIGINT, interrupt)
                _wait_for_command(files)
            for file in files:
                os.close(file)
            _reap(os.WNOHANG)
    _reap(0)


def _reap(options: int) -> None:
    """Collect the processes that have ended, so that their time counts as ours; without WNOHANG, all of them."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, options)[0]:
            pass


def _wait_for_command(files: list[int]) -> NoReturn:
    """Start the command in a child, and send the child's number and then its exit code."""
    sent, *streams, reply = files
    pid = os.fork()
    if not pid:
        os.close(reply)
        _run_command(sent, streams)
    for stream in streams:
        os.close(stream)
    os.write(reply, b"%d\n" % pid)
    os.write(reply, b"%d\n" % os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    os._exit(0)


def _run_command(sent: int, streams: list[int]) -> NoReturn:
    with open(sent) as file:
        request = json.load(file)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    sys.path[:0] = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    if limit := request["largest_file"]:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    sys.argv = ["sureenough", *request["words"]]
    code: object = 1
    try:
        main()
        code = 0
    except SystemExit as ended:
        code = ended.code
    except BaseException:
        traceback.print_exc()
    # What an interpreter does at its end, without the time it takes to free every object.
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for written in (sys.stdout, sys.stderr):
        with suppress(ValueError):  # closed after a broken pipe
            written.flush()
    os._exit(code if isinstance(code, int) else 0 if code is None else 1)
