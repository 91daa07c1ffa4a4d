"""Whatever the OpenAPI document allows, and what it does not, gets a status and a shape that it names; never a 500."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from sureenough.server import ServerLimits
from tests.engines.misbehaving import Manner
from tests.requirements import FULL
from tests.server.upstream import an_upstream, before

CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"
COMMAND = (
    sys.executable, "-W", "ignore", "-m", "schemathesis.cli", "run", "--checks", CHECKS, "--seed", "1", "--no-color",
    "--max-examples", "15" if FULL else "6",
    "--phases", "examples,coverage,fuzzing" if FULL else "examples,fuzzing",
    "--request-timeout", "20", "--suppress-health-check", "all",
)  # fmt: skip


def test_schemathesis_finds_no_server_error(tmp_path: Path) -> None:
    limits = ServerLimits(paths=20, seconds=5, tokens=2_000)
    with an_upstream(Manner(tokens=2)) as up, before(up, limits=limits, paths=16, models=("tiny",)) as (url, state):
        done = subprocess.run(
            [*COMMAND, f"{url}/openapi.json"], capture_output=True, text=True, timeout=500, cwd=tmp_path, check=False
        )
        samples = [sample for metric in state.metrics.requests.collect() for sample in metric.samples]
        seen = {(one.labels["route"], int(one.labels["status"])): one.value for one in samples}
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert sum(n for (route, _), n in seen.items() if route == "/v1/chat/completions") > 5, "it asked little"
    assert not [status for _, status in seen if status >= 500]
