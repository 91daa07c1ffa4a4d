"""The report with which `.ci/run` ends if a step fails, by a script of a few steps in its place."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

STEPS = Path(__file__).parents[1] / ".ci" / "steps"
SCRIPT = r"""
source "$STEPS"
step "one"
echo FAILED in another step
step "two [of them]"
checks() { bash -c 'echo "== inside"; echo "FAILED a.py::b"; printf "\033[31mERROR\033[0m c.py\n"; seq 99; exit 3'; }
checks
step "three"
"""


def run(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"STEPS": str(STEPS), "TMPDIR": str(folder)}
    return subprocess.run(
        ["bash", "-c", script], env=environment, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.skipif(not STEPS.exists(), reason="not a checkout")
def test_a_run_ends_with_what_failed(tmp_path: Path) -> None:
    done = run(SCRIPT, tmp_path)
    assert done.returncode == 3, done
    _, _, report = done.stdout.partition("\n== failed with exit code 3: two [of them]\ncommand: bash -c ")
    failures, _, last = report.partition("-- its last lines:\n")
    assert failures.splitlines()[2:] == ["FAILED a.py::b", "\x1b[31mERROR\x1b[0m c.py"]
    assert last.splitlines()[:30] == [str(n) for n in range(70, 100)]
    assert last.splitlines()[30].startswith("== failed with exit code 3: two [of them] (command: bash -c ")
    assert "three" not in done.stdout
    assert not list(tmp_path.iterdir()), "its folder is removed"


@pytest.mark.skipif(not STEPS.exists(), reason="not a checkout")
def test_a_run_that_succeeds_reports_nothing(tmp_path: Path) -> None:
    done = run('source "$STEPS"\nstep "one"\nseq 2\nstep "all is well"', tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    printed, _, seconds = done.stdout.partition("\n== seconds of each step\n")
    assert printed == "\n== one\n1\n2\n\n== all is well\n"
    assert re.sub(r"(?m)^ +\d+ s  ", "", seconds) == "before the first step\none\nall is well\nin all\n"
    assert not list(tmp_path.iterdir())
