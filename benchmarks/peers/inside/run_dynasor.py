"""Dynasor: its loop of chunks and probes on paths that were recorded with probes.

A stand-in for the OpenAI client sends the next part of a path, and the recorded reply to a probe. When to probe, what
counts as an answer and when a path ends is Dynasor's code.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from dynasor.core.cot import openai_chat_completion_stream
from job import Job, boxed, emit, timed

EVERY = 16
SUFFIX = "\nThe answer is \\boxed{"


class RecordedClient:
    """One path, and its probes by the number of tokens after which they were sent."""

    def __init__(self, path: dict[str, Any]) -> None:
        self.text = path["text"]
        self.probes = {probe["at"]: probe for probe in path["probes"]}
        self.tokens = self.probe_tokens = self.last_probe = 0
        self.completions = SimpleNamespace(create=self.create)

    def create(self, *, prompt: str, max_tokens: int, **options: Any) -> list[SimpleNamespace]:
        """The reply to a request, as a stream of one chunk."""
        if "top_p" in options:  # only probes have it; a path may end in the suffix by itself
            return self.probe(len(prompt) - len(SUFFIX))
        part = self.text[len(prompt) : len(prompt) + max_tokens]
        self.tokens += len(part)
        return chunk(part, "length" if len(prompt) + max_tokens < len(self.text) else "stop")

    def probe(self, at: int) -> list[SimpleNamespace]:
        """The recorded reply at this place; before the first token there is none."""
        self.last_probe = at
        probe = self.probes.get(at, {"answer": None, "tokens": 0, "hedged": False})
        self.probe_tokens += probe["tokens"]
        answer = "" if probe["answer"] is None else f"{probe['answer']}}}"
        return chunk(answer + (" wait" if probe["hedged"] else ""), "stop")


def chunk(text: str, finish: str) -> list[SimpleNamespace]:
    """A stream of one chunk."""
    return [SimpleNamespace(choices=[SimpleNamespace(text=text, finish_reason=finish)])]


job = Job.read()
agree = int(job.system.split()[-1])
with timed():
    for question in job.questions:
        for number, path in enumerate(question["paths"]):
            client = RecordedClient(path)
            stream = openai_chat_completion_stream(
                client, job.model, "", dynasor_saving_effort=(agree, EVERY), probeing_suffix=SUFFIX
            )
            answer = boxed("".join(stream))
            early = client.tokens < len(path["text"])
            emit(id=question["id"], path=number, answer=answer, tokens=client.tokens, probes=client.probe_tokens,
                 ended=client.last_probe if early else len(path["text"]))  # fmt: skip
