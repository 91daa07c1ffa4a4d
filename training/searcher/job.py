"""Train, then sample the pools, within a time: `python -m searcher.job RUN --seconds 1250`.

Each step is a process of its own; one that dies, or goes on for too long, is started again if there is time, and goes
on from what it has written. RUN/job.log says how far it is, and RUN/finished is written at the end, come what may.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

STARTED = time.monotonic()
STARTING = 25.0
"""Seconds without which starting a step again is of no use."""
LIMITS = {"train": "--left", "record": "--seconds"}
"""The options that take the seconds of a process."""
GRACE = 20.0
"""Seconds over its own limit that a step gets until it is killed."""


def options(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--seconds", type=float, default=1250.0, help="for everything")
    parser.add_argument("--train-seconds", type=float, default=600.0, help="of these, for training")
    for step in LIMITS:
        parser.add_argument(f"--{step}-options", default="", help=f"for {step}.py, in one text")
    return parser.parse_args(arguments)


def say(run: Path, text: str) -> None:
    with (run / "job.log").open("a") as file:
        file.write(f"{time.monotonic() - STARTED:7.1f} {text}\n")


def once(run: Path, step: str, arguments: list[str], seconds: float) -> int:
    """Start a process for a step; returns its exit status, -9 if it was killed for its time."""
    command = [sys.executable, "-m", f"searcher.{step}", str(run), LIMITS[step], f"{seconds:.0f}", *arguments]
    say(run, shlex.join(command[1:]))
    with (run / f"{step}.out").open("a") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            return process.wait(seconds + GRACE)
        except subprocess.TimeoutExpired:
            return -signal.SIGKILL
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # with the processes that make data
            process.wait()


def repeated(run: Path, step: str, arguments: list[str], ends: float) -> bool:
    """A step until it ends well, or until the time is over."""
    while (left := ends - (time.monotonic() - STARTED)) > STARTING:
        begun = time.monotonic()
        status = once(run, step, arguments, left)
        say(run, f"{step} ended with {status} after {time.monotonic() - begun:.0f} s")
        if status == 0:
            return True
        time.sleep(2)
    return False


def main() -> None:
    """Both steps; pools are sampled from what training left, even if it did not end well."""
    arguments = options()
    run = arguments.run
    run.mkdir(parents=True, exist_ok=True)
    (run / "finished").unlink(missing_ok=True)
    training = ["--seconds", f"{arguments.train_seconds:g}", *shlex.split(arguments.train_options)]
    trained = (run / "trained").exists() or repeated(run, "train", training, arguments.train_seconds)
    if trained:
        (run / "trained").touch()  # if all of this is started again, its seconds are for sampling
    recorded = False
    if (run / "config.json").exists():
        recorded = repeated(run, "record", shlex.split(arguments.record_options), arguments.seconds - GRACE)
    say(run, f"finished: {trained=}, {recorded=}")
    (run / "finished").touch()
    sys.exit(not recorded)


if __name__ == "__main__":
    main()
