"""AdaptiveConsistency: the loop of its documentation, one request after another, or its stop test on recorded paths."""

from __future__ import annotations

import json
from urllib.request import Request, urlopen

from adaptive_consistency import AC
from job import Job, boxed, emit, timed


def sample(job: Job, question: str) -> str | None:
    """One more answer of the model."""
    body = {"model": job.model, "messages": [{"role": "user", "content": question}], "temperature": 0.6}
    request = Request(f"{job.url}/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urlopen(request) as response:
        return boxed(json.load(response)["choices"][0]["message"]["content"])


def live(job: Job, ac: AC) -> None:
    """Sample until it says stop."""
    for question in job.questions:
        answers: list[str | None] = []
        while len(answers) < job.paths:
            answers.append(sample(job, question["question"]))
            verdict = ac.should_stop(answers, return_dict=True)
            if verdict["stop"]:
                break
        emit(id=question["id"], answer=verdict["most_common"])


def rules(job: Job, ac: AC) -> None:
    """After how many answers it stops, abstentions left out; None if it does not."""
    for question in job.questions:
        answers: list[str] = []
        stopped = None
        for number, path in enumerate(question["paths"][: job.paths], 1):
            if path["answer"] is not None:
                answers.append(path["answer"])
                if ac.should_stop(answers):
                    stopped = number
                    break
        emit(id=question["id"], stopped=stopped)


job = Job.read()
with timed():
    (rules if job.system.endswith("rules") else live)(job, AC(max_gens=job.paths, stop_criteria="beta"))
