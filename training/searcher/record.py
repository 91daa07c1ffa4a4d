"""Sample the pools: `python -m searcher.record RUN --seconds 500`.

A few problems at several temperatures choose the temperature. Then `pool`, 300 problems with 128 paths each, and
`wide`, 40 with 512, are sampled in one go. Whole questions are written to RUN/pool.N.xz and
RUN/wide.N.xz as they end; run again, it samples the questions that are missing.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import defaultdict
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import torch
from searcher.evaluate import choose, load, problems_of, report, summary
from searcher.files import Sampled, load_paths, save_paths
from searcher.model import Size
from searcher.problems import GeneratedProblem
from searcher.sampler import Sampler
from shape import prompt_tokens

STARTED = time.monotonic()
TOKENS_PER_FILE = 3_000_000
"""About 9 MB; a file has whole questions, and so may have more."""
ENDING = 60.0
"""Seconds before the end, after which no question is begun: the last paths, their files, the summary."""
SPARED = 6 << 30
"""Bytes of a GPU's memory that are not used for the cache."""


class Part(NamedTuple):
    """Problems that are sampled alike: so many of each level."""

    name: str
    seed: int
    countdown: int
    grid: int
    paths: int

    def __str__(self) -> str:
        return f"{self.countdown},{self.grid},{self.paths}"


@cache
def problems_in(part: Part) -> list[GeneratedProblem]:
    return problems_of(part.seed, {"countdown": part.countdown, "grid": part.grid})


SCAN, POOL, WIDE = Part("scan", 9001, 8, 4, 16), Part("pool", 9002, 40, 20, 128), Part("wide", 9003, 6, 2, 512)


def options(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="the folder that training wrote")
    parser.add_argument("--seconds", type=float, default=1e9, help="from start to end")
    parser.add_argument("--temperatures", default="0.6,0.8,1.0", help="the ones to choose from")
    parser.add_argument("--top-p", type=float, default=0.95)
    parser.add_argument("--slots", type=int, default=2048, help="paths at once, fewer if the memory is too small")
    for part in (SCAN, POOL, WIDE):
        words = f"problems of Countdown and of grids per level, and paths: {part}"
        parser.add_argument(f"--{part.name}", default=str(part), help=words)
    return parser.parse_args(arguments)


def log(run: Path, **entry: Any) -> None:
    """A JSON line in a file, and on the screen."""
    line = json.dumps({"seconds": round(time.monotonic() - STARTED, 1), **entry})
    with (run / "record.jsonl").open("a") as file:
        file.write(line + "\n")
    print(line, flush=True)


def make_sampler(run: Path, slots: int) -> Sampler:
    """The model with as many slots as fit into the memory that is free."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = load(run, device, torch.float16 if device == "cuda" else torch.float32)
    if device == "cuda":
        slots = min(slots, int((torch.cuda.mem_get_info()[0] - SPARED) // slot_bytes(model.size)) // 64 * 64)
    return Sampler(model, slots)


def slot_bytes(size: Size) -> int:
    """Of a path's keys and values in 16 bits."""
    return 2 * 2 * size.layers * size.groups * size.head * size.context


def scan(sampler: Sampler, part: Part, arguments: argparse.Namespace) -> float:
    """Choose a temperature, all of them at once; the choice is kept in a file."""
    file = arguments.run / "temperature.json"
    if file.exists():
        return float(json.loads(file.read_text())["temperature"])
    problems, temperatures = problems_in(part), [float(one) for one in arguments.temperatures.split(",")]
    prompts = [prompt_tokens(problem.question) for problem in problems] * len(temperatures)
    degrees = [one for one in temperatures for _ in problems]
    paths = list(sampler.sample(prompts, [part.paths] * len(prompts), degrees, arguments.top_p, part.seed))
    by_temperature: dict[float, list[Sampled]] = defaultdict(list)
    for path in paths:
        by_temperature[degrees[path.question]].append(path._replace(question=path.question % len(problems)))
    measured = {one: summary(problems, by_temperature[one]) for one in temperatures}
    temperature, met = choose(measured)
    entry = {"temperature": temperature, "top_p": arguments.top_p, "aim_met": met, "seed": part.seed,
             "paths": part.paths, "scan": measured}  # fmt: skip
    file.write_text(json.dumps(entry, indent=1) + "\n")
    log(arguments.run, **entry)
    for path in by_temperature[temperature][:2]:
        print(problems[path.question].question, path.text.decode(errors="replace"), sep="\n", flush=True)
    return temperature


class Files:
    """Whole questions of one part, several to a file; files are written by other threads."""

    def __init__(self, run: Path, part: Part, threads: ThreadPoolExecutor) -> None:
        self._run, self._part, self._threads = run, part, threads
        self._waiting: dict[int, list[Sampled]] = defaultdict(list)
        self._whole: list[Sampled] = []
        self.jobs: list[Future[None]] = []
        written = [int(file.name.split(".")[1]) for file in run.glob(f"{part.name}.*.xz")]
        self._number = max(written, default=-1) + 1

    def done(self) -> Iterable[Sampled]:
        """What earlier runs sampled."""
        for file in sorted(self._run.glob(f"{self._part.name}.*.xz")):
            yield from load_paths(file)

    def add(self, path: Sampled) -> None:
        group = self._waiting[path.question]
        group.append(path)
        if len(group) == self._part.paths:
            self._whole += sorted(self._waiting.pop(path.question), key=lambda one: one.number)
            if sum(len(one.conf) for one in self._whole) >= TOKENS_PER_FILE:
                self.flush()

    def flush(self) -> None:
        if self._whole:
            file = self._run / f"{self._part.name}.{self._number:03}.xz"
            self.jobs.append(self._threads.submit(save_paths, file, self._whole))
            self._number, self._whole = self._number + 1, []


def record(sampler: Sampler, parts: list[Part], temperature: float, arguments: argparse.Namespace) -> None:
    """Sample all questions that are missing, of the first part first, and of its levels by turns."""
    questions, kept = [], defaultdict[str, list[Sampled]](list)
    with ThreadPoolExecutor() as threads:
        files = {part.name: Files(arguments.run, part, threads) for part in parts}
        for part in parts:
            problems = problems_in(part)
            listed = [[one.id, one.question, one.gold, one.level] for one in problems]
            (arguments.run / f"{part.name}-questions.json").write_text(json.dumps(listed))
            kept[part.name] = list(files[part.name].done())
            missing = sorted({*range(len(problems))} - {path.question for path in kept[part.name]})
            Random(0).shuffle(missing)
            questions += [(part, number, problems[number]) for number in missing]
        if questions:
            sampled = sampler.sample(
                [prompt_tokens(problem.question) for _, _, problem in questions],
                [part.paths for part, _, _ in questions],
                [temperature] * len(questions),
                arguments.top_p,
                seed=parts[0].seed + len(kept[parts[0].name]),
                until=STARTED + arguments.seconds - ENDING,
            )
            tokens, begun = 0, time.monotonic()
            for count, path in enumerate(sampled, 1):
                part, number, _ = questions[path.question]
                files[part.name].add(path._replace(question=number))
                kept[part.name].append(path._replace(question=number))
                tokens += len(path.conf)
                if count % 2_000 == 0:
                    log(arguments.run, paths=count, tokens=tokens,
                        per_second=round(tokens / (time.monotonic() - begun)))  # fmt: skip
        for one in files.values():
            one.flush()
        for job in [job for one in files.values() for job in one.jobs]:
            job.result()
    for part in parts:
        if kept[part.name]:
            log(arguments.run, part=part.name, summary=report(problems_in(part), kept[part.name]))


def main() -> None:
    """Choose the temperature and sample."""
    arguments = options()
    chosen, pool, wide = (
        Part(part.name, part.seed, *map(int, getattr(arguments, part.name).split(",")))
        for part in (SCAN, POOL, WIDE)
    )  # fmt: skip
    for part in (chosen, pool, wide):
        problems_in(part)  # by other processes, which had better not be forked once there is a GPU in this one
    sampler = make_sampler(arguments.run, arguments.slots)
    log(arguments.run, slots=sampler.slots, attention=sampler.attend.__name__)
    temperature = scan(sampler, chosen, arguments)
    record(sampler, [pool, wide], temperature, arguments)
    log(arguments.run, done=True)


if __name__ == "__main__":
    main()
