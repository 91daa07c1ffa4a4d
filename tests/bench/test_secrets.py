"""Secrets of a command stay out of everything that is written or printed (issue 14, item 4)."""

from __future__ import annotations

from pathlib import Path

import pytest

from sureenough.bench.result import read
from sureenough.redact import printable_command, printable_url
from tests.bench.typed import MANNER, bench, on, questions
from tests.engines.misbehaving import serving
from tests.in_thread import in_thread
from tests.processes import sureenough

SECRETS = ("hunter2", "sk-planted")


def test_14_4_bench_writes_no_secret_anywhere(tmp_path: Path) -> None:
    dataset, folder = questions(tmp_path / "sums.jsonl", 2), tmp_path / "run"
    with in_thread(serving(MANNER)) as server:
        url = server.url.replace("http://", f"http://user:{SECRETS[0]}@") + f"?token={SECRETS[1]}"
        command = (*on(url, dataset, folder), "--live", "--json")
        done = bench(*command)
        assert done.returncode == 0, done.stderr
        again = bench(*command, "--temperature", "0.9")
    dead = bench(*on(url.replace(server.url.split(":")[2].split("/")[0], "9"), dataset, tmp_path / "dead"))
    assert dead.returncode == 3
    report = sureenough("bench", "--report", str(folder))
    assert report.returncode == 0, report.stderr
    printed = "".join(run.stdout + run.stderr for run in (done, again, dead, report))
    files = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert len(files) > 15
    for secret in SECRETS:
        assert secret not in printed
        assert not [file for file in files if secret.encode() in file.read_bytes()]
    assert f"--url {server.url}" in read(folder / "results" / "main.json").provenance.command


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://localhost:8000/v1", "http://localhost:8000/v1"),
        ("https://user:hunter2@host/v1", "https://host/v1"),
        ("https://hunter2@host:1/v1?token=sk-planted#hunter2", "https://host:1/v1"),
        ("http://a:b@c:hunter2@host/v1", "http://host/v1"),
        ("http://user:hunter2@[::1]:8000/v1", "http://[::1]:8000/v1"),
        ("http://user:pa/ss?w#rd@host/v1", "http://host/v1"),
        ("user:hunter2@host", "host"),
        ("", ""),
    ],
)
def test_14_4_a_url_is_shown_without_credentials_and_query(url: str, shown: str) -> None:
    assert printable_url(url) == shown


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["bench", "--url", "http://u:hunter2@h/v1"], "bench --url http://h/v1"),
        (["bench", "--url=http://u:hunter2@h/v1", "-s", "ddc:tau=0.9"], "bench --url=http://h/v1 -s ddc:tau=0.9"),
        (["serve", "--api-key", "sk-planted", "--port", "1"], "serve --api-key '***' --port 1"),
        (["serve", "--api-key=sk-planted"], "serve '--api-key=***'"),
        (["ask", "--first-token", "5", "--max-tokens=9"], "ask --first-token 5 --max-tokens=9"),
        (["ask", "what is a b?"], "ask 'what is a b?'"),
    ],
)
def test_14_4_a_command_is_shown_without_secrets(words: list[str], shown: str) -> None:
    assert printable_command(words) == shown
