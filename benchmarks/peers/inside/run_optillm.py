"""optillm: its proxy in front of the server, with an approach in the model's name."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

from job import Job, boxed, emit, timed
from openai import OpenAI, OpenAIError

APPROACHES = {"optillm self_consistency": "self_consistency", "optillm majority_voting": "majority_voting"}


def free_port() -> int:
    """A port on which nothing listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait(client: OpenAI, proxy: subprocess.Popen[bytes]) -> None:
    """Until the proxy lists models."""
    for _ in range(600):
        if proxy.poll() is not None:
            raise SystemExit(f"optillm ended with {proxy.returncode}")
        try:
            client.models.list()
        except OpenAIError:
            time.sleep(0.5)
        else:
            return
    raise SystemExit("optillm did not start within five minutes")


def ask(client: OpenAI, job: Job) -> None:
    """One question after another."""
    model = f"{APPROACHES[job.system]}-{job.model}"
    for question in job.questions:
        reply = client.chat.completions.create(
            model=model, messages=[{"role": "user", "content": question["question"]}], extra_body={"k": job.paths}
        )
        used = reply.usage.completion_tokens if reply.usage else None
        emit(id=question["id"], answer=boxed(reply.choices[0].message.content), claimed=used)


job = Job.read()
port = free_port()
program = Path(sys.executable).with_name("optillm")
environment = {**os.environ, "OPENAI_API_KEY": "none"}
command = [str(program), "--base-url", f"{job.url}/v1", "--port", str(port), "--log", "warning"]
with subprocess.Popen(command, env=environment, stdout=sys.stderr, stderr=sys.stderr) as proxy:
    try:
        client = OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="none", timeout=600, max_retries=0)
        wait(client, proxy)
        with timed():
            ask(client, job)
    finally:
        proxy.terminate()
