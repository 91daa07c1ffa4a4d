"""`--ray`: what is refused before a cluster is needed."""

from __future__ import annotations

from pathlib import Path

import pytest

from sureenough.errors import UsageError
from sureenough.ray.cluster import check_address
from tests.cli.recording import write_sums
from tests.processes import CLEAN, sureenough


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["--ray", "auto", "--url", "http://me:hunter2@127.0.0.1:9/v1", "--model", "m"],
            "put the URL into SUREENOUGH_URL",
        ),
        (["--ray", "auto", "--dry-run"], "--dry-run samples on this machine: leave --ray out"),
    ],
)
@pytest.mark.parametrize("verb", ["record", "bench"])
def test_refused_without_a_cluster(verb: str, words: list[str], message: str, tmp_path: Path) -> None:
    dataset = str(write_sums(tmp_path / "sums.jsonl", 1))
    place = ["record", dataset] if verb == "record" else ["bench", "main", "--dataset", dataset]
    done = sureenough(*place, "-o", tmp_path / "out", *words, env=CLEAN)
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert message in done.stderr
    assert "hunter2" not in done.stderr
    assert "Traceback" not in done.stderr


def test_an_address_with_a_password_is_refused_without_it() -> None:
    with pytest.raises(UsageError, match=r"head:6379 is not the address of a Ray cluster") as refusal:
        check_address("me:hunter2@head:6379")
    assert "hunter2" not in str(refusal.value)
