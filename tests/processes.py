"""`sureenough` as a process of its own, without the second of imports: it is forked from a process that has them.

Every command is a real process with its own working directory, environment, standard streams and exit code, so tests
see what a user sees. Tests of signals, of closed streams or of imports start a new interpreter instead.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryFile
from typing import NoReturn

from sureenough.__main__ import main

PRELOADED = ("aiohttp", "numpy", "prometheus_client", "pyarrow.parquet", "rich.live", "scipy.special", "scipy.stats",
             "sureenough.bench.experiments", "sureenough.server.app", "uvicorn")  # fmt: skip
SERVE = "import sys; from tests.processes import serve; serve(int(sys.argv[1]))"
ROOT = Path(__file__).parents[1]


def sureenough(
    *words: str,
    given: str | bytes = "",
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    timeout: float = 120,
) -> subprocess.CompletedProcess[str]:
    """What `sureenough WORDS` writes and its exit code; `given` is its standard input."""
    variables = dict(os.environ | {"NO_COLOR": "1"} if env is None else env)
    request = {"words": words, "cwd": str(cwd or Path.cwd()), "env": variables}
    with TemporaryFile() as sent, TemporaryFile() as stdin, TemporaryFile() as stdout, TemporaryFile() as stderr:
        sent.write(json.dumps(request).encode())
        stdin.write(given.encode() if isinstance(given, str) else given)
        files = [sent, stdin, stdout, stderr]
        for file in files:
            file.seek(0)
        status = _run([file.fileno() for file in files], timeout)
        stdout.seek(0)
        stderr.seek(0)
        return subprocess.CompletedProcess(words, status, stdout.read().decode(), stderr.read().decode())


def refused(*words: str) -> str:
    """The message of a command that must end with exit code 2 and no traceback."""
    done = sureenough(*words)
    assert done.returncode == 2, done
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    return " ".join(done.stderr.split())


def _run(files: list[int], timeout: float) -> int:
    """The exit code of a command; one that takes too long is killed."""
    ours, theirs = socket.socketpair()
    with ours, ours.makefile("r") as reply:
        with theirs:
            socket.send_fds(_server(), [b"x"], [*files, theirs.fileno()])
        pid = int(reply.readline())
        if not select.select([ours], [], [], timeout)[0]:
            os.kill(pid, signal.SIGKILL)
            raise subprocess.TimeoutExpired("sureenough", timeout)
        return int(reply.readline())


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
    from sureenough.cli import VERBS

    for name in (*PRELOADED, *(f"sureenough.cli.{verb.replace('-', '_')}" for verb in VERBS)):
        import_module(name)
    gc.collect()
    gc.freeze()
    interrupt = signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # those who wait for the commands are not waited for
    with socket.socket(fileno=number) as requests:
        while files := socket.recv_fds(requests, 1, 5)[1]:
            if not os.fork():
                requests.close()
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                signal.signal(signal.SIGINT, interrupt)
                _wait_for_command(files)
            for file in files:
                os.close(file)


def _wait_for_command(files: list[int]) -> NoReturn:
    """Start the command in a child, and send the child's number and then its exit code."""
    sent, *streams, reply = files
    pid = os.fork()
    if not pid:
        os.close(reply)
        _be_command(sent, streams)
    os.write(reply, b"%d\n" % pid)
    os.write(reply, b"%d\n" % os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    os._exit(0)


def _be_command(sent: int, streams: list[int]) -> NoReturn:
    with open(sent) as file:
        request = json.load(file)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
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
