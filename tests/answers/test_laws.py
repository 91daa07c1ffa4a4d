"""The laws of the judge on random answers, by the benchmark's own generator; the benchmark does it at full size."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.requirements import FULL

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "answers.py"


@pytest.mark.skipif(not SCRIPT.exists(), reason="needs the benchmarks of a checkout")
def test_no_errors_no_asymmetry_and_one_partition_in_every_process() -> None:
    sizes = ("400", "4", "4") if FULL else ("200", "2", "2")  # pairs, groups of answers, processes
    done = subprocess.run([sys.executable, str(SCRIPT), "--fuzz", *sizes], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.findall(r": (\d+)", done.stdout) == ["0", "0"]
