"""Ask every kept path for its answer after every so many tokens: `python -m searcher.probe RUN pool-0.8`.

As `sureenough record --probes` does: the path so far, the opening of a box, and the most likely tokens after it. Writes
RUN/pool-0.8.N.probes.xz beside each RUN/pool-0.8.N.xz that has none yet.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from collections.abc import Sequence
from pathlib import Path

import torch
from searcher.evaluate import load
from searcher.files import Probed, Sampled, load_paths, save_probes
from searcher.sampler import Sampler
from shape import prompt_tokens

OPENING = b"\nThe answer is \\boxed{"
CLOSED = re.compile(rb"(\d{1,9})\}")
COLD = 1e-4
"""A temperature at which the most likely token is always drawn."""
ROOM = 16
"""Tokens for an answer."""


def options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("name")
    parser.add_argument("--every", type=int, default=64)
    parser.add_argument("--slots", type=int, default=1024)
    parser.add_argument("--seconds", type=float, default=1e9, help="begin no further file after so long")
    return parser.parse_args()


def probe(sampler: Sampler, questions: Sequence[str], paths: Sequence[Sampled], every: int) -> list[Probed]:
    """The answers of all paths at all points, short beginnings first, so that those of a batch are about as long."""
    points = [(path, at) for path in paths for at in range(every, len(path.conf), every)]
    points.sort(key=lambda point: point[1] + len(questions[point[0].question]))
    probes = []
    for batch in _batches(points, sampler.slots):
        prompts = [[*prompt_tokens(questions[path.question]), *path.text[:at], *OPENING] for path, at in batch]
        fitting = [i for i, prompt in enumerate(prompts) if len(prompt) + ROOM < sampler.longest]
        replies = {}
        if fitting:
            for reply in sampler.sample([prompts[i] for i in fitting], 1, COLD, top_p=1.0, most=ROOM):
                replies[fitting[reply.question]] = reply
        for i, (path, at) in enumerate(batch):
            text = replies[i].text if i in replies else b""
            closed = CLOSED.match(text)
            answer = int(closed[1]) if closed else None
            probes.append(Probed(path.question, path.number, at, answer, closed.end() if closed else len(text)))
    return probes


def _batches(points: list[tuple[Sampled, int]], size: int) -> list[list[tuple[Sampled, int]]]:
    return [points[i : i + size] for i in range(0, len(points), size)]


def main() -> None:
    """Probe file after file."""
    arguments, started = options(), time.monotonic()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = load(arguments.run, device, torch.float16 if device == "cuda" else torch.float32)
    sampler = Sampler(model, arguments.slots, chunk=ROOM)
    listed = json.loads((arguments.run / f"{arguments.name.rpartition('-')[0]}-questions.json").read_text())
    questions = [question for _, question, _, _ in listed]
    for file in sorted(arguments.run.glob(f"{arguments.name}.*.xz")):
        out = file.with_suffix(".probes.xz")
        if file.name.endswith(".probes.xz") or out.exists():
            continue
        if time.monotonic() - started > arguments.seconds:
            print(f"no time for {file.name}", flush=True)
            break
        probes = probe(sampler, questions, list(load_paths(file)), arguments.every)
        save_probes(out, probes)
        print(f"{out.name}: {len(probes)} probes after {time.monotonic() - started:.0f} s", flush=True)


if __name__ == "__main__":
    main()
