"""Measure the trained model on held-out problems, and keep its paths: `python -m searcher.evaluate RUN`.

For each temperature: how often one path is right, how often the majority of its paths, how long paths are, and how well
path confidence separates right from wrong paths of one question. `--keep NAME` writes the paths as files for pool.py.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from collections import Counter, defaultdict
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch
from measure import area, lowest
from searcher.files import Sampled, load_weights, save_paths
from searcher.model import Searcher, Size
from searcher.sampler import Sampler
from shape import prompt_tokens

from sureenough.problems import LEVELS, GeneratedProblem, generate

BOX = re.compile(r"\\boxed\{(\d+)\}\.$")
WINDOWS = (64, 256)
PATHS_PER_FILE = 3_000


def options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="the folder that training wrote")
    parser.add_argument("--seed", type=int, default=9001, help="of the problems; 9001, 9002 and 9003 are held out")
    parser.add_argument("--countdown", type=int, default=40, help="problems per level")
    parser.add_argument("--grid", type=int, default=0, help="problems per level")
    parser.add_argument("--paths", type=int, default=64)
    parser.add_argument("--temperatures", default="0.6,0.8,1.0")
    parser.add_argument("--top-p", type=float, default=0.95)
    parser.add_argument("--slots", type=int, default=2048)
    parser.add_argument("--seconds", type=float, default=1e9, help="begin no further temperature after so long")
    parser.add_argument("--dtype", choices=("float16", "bfloat16", "float32"), default=None)
    parser.add_argument("--keep", default="", help="keep the paths in RUN/NAME-T.N.xz")
    return parser.parse_args()


def load(run: Path, device: str, dtype: torch.dtype) -> Searcher:
    """The model from the pieces of its weights."""
    config = json.loads((run / "config.json").read_text())
    size = Size(
        config["hidden_size"], config["num_hidden_layers"], config["head_dim"], config["max_position_embeddings"]
    )
    model = Searcher(size).to(device)
    model.load_weights({name: torch.from_numpy(one.copy()) for name, one in load_weights(run).items()})
    return model.in_16_bits(dtype)


def _generate(job: tuple[str, int, int, int]) -> list[GeneratedProblem]:
    collection, level, seed, count = job
    return generate(level, seed, count, collection)


def problems_of(seed: int, counts: dict[str, int]) -> list[GeneratedProblem]:
    """Problems of every level in turn."""
    jobs = [(name, level, seed, count) for name, count in counts.items() for level in LEVELS if count]
    with ProcessPoolExecutor() as pool:
        return [problem for problems in pool.map(_generate, jobs) for problem in problems]


def answer_of(path: Sampled) -> str | None:
    box = BOX.search(path.text.decode(errors="replace"))
    return box[1] if box and path.finished else None


def summary(problems: list[GeneratedProblem], paths: list[Sampled]) -> dict[str, Any]:
    """What paths of these problems are worth, alone and together."""
    by_question: dict[int, list[Sampled]] = defaultdict(list)
    for path in sorted(paths, key=lambda one: (one.question, one.number)):
        by_question[path.question].append(path)
    right_paths, votes, areas = [], [], defaultdict(list)
    lengths: dict[bool, list[int]] = {True: [], False: []}
    for question, group in by_question.items():
        gold = problems[question].gold
        answers = [answer_of(path) for path in group]
        right = np.array([answer == gold for answer in answers])
        majority = Counter(answer for answer in answers if answer is not None).most_common(1)
        votes.append(bool(majority) and majority[0][0] == gold)
        right_paths.append(right)
        for path, is_right in zip(group, right, strict=True):
            lengths[bool(is_right)].append(len(path.conf))
        for window in WINDOWS:
            value = area(np.array([lowest(path.conf, window) for path in group]), right)
            if value is not None:
                areas[window].append(value)
    everything = np.concatenate(right_paths)
    return {
        "questions": len(votes), "one_path": round(float(everything.mean()), 4),
        "majority": round(float(np.mean(votes)), 4),
        "any": round(float(np.mean([right.any() for right in right_paths])), 4),
        "tokens": round(float(np.mean(lengths[True] + lengths[False])), 1),
        "tokens_right": round(float(np.mean(lengths[True] or [0])), 1),
        "tokens_wrong": round(float(np.mean(lengths[False] or [0])), 1),
        "no_answer": round(float(np.mean([answer_of(path) is None for path in paths])), 4),
        "unfinished": round(float(np.mean([not path.finished for path in paths])), 4),
        **{f"area_{window}": round(float(np.mean(values)), 3) for window, values in areas.items()},
    }  # fmt: skip


def report(problems: list[GeneratedProblem], paths: list[Sampled]) -> dict[str, Any]:
    """All problems of each family, and each level."""
    out: dict[str, Any] = {}
    for family in dict.fromkeys(problem.family for problem in problems):
        for level in (None, *LEVELS):
            chosen = {
                i for i, one in enumerate(problems) if one.family == family and (level is None or one.level == level)
            }
            some = [path for path in paths if path.question in chosen]
            if some:
                out[family if level is None else f"{family} {level}"] = summary(problems, some)
    return out


def main() -> None:
    """Sample, measure and keep."""
    arguments, started = options(), time.monotonic()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    dtype = getattr(torch, arguments.dtype or ("float16" if device == "cuda" else "float32"))
    problems = problems_of(arguments.seed, {"countdown": arguments.countdown, "grid": arguments.grid})
    sampler = Sampler(load(arguments.run, device, dtype), arguments.slots)
    prompts = [prompt_tokens(problem.question) for problem in problems]
    listed = [[one.id, one.question, one.gold, one.level] for one in problems]
    name = arguments.keep or "evaluation"
    (arguments.run / f"{name}-questions.json").write_text(json.dumps(listed))
    with ThreadPoolExecutor() as threads:
        for temperature in map(float, arguments.temperatures.split(",")):
            if time.monotonic() - started > arguments.seconds:
                print(f"no time for temperature {temperature}", flush=True)
                break
            begun = time.monotonic()
            paths = list(sampler.sample(prompts, arguments.paths, temperature, arguments.top_p, seed=arguments.seed))
            taken = time.monotonic() - begun
            tokens = sum(len(path.conf) for path in paths)
            jobs = _keep(arguments, temperature, paths, threads) if arguments.keep else []
            entry = {
                "temperature": temperature, "top_p": arguments.top_p, "paths": arguments.paths, "seed": arguments.seed,
                "attention": sampler.attend.__name__, "tokens": tokens, "seconds": round(taken, 1),
                "per_second": round(tokens / taken), "summary": report(problems, paths),
            }  # fmt: skip
            with (arguments.run / f"{name}.jsonl").open("a") as file:
                file.write(json.dumps(entry) + "\n")
            print(json.dumps(entry, indent=1), flush=True)
            for path in paths[:2]:
                print(problems[path.question].question, path.text.decode(errors="replace"), sep="\n", flush=True)
            for job in jobs:
                job.result()


def _keep(
    arguments: argparse.Namespace, temperature: float, paths: list[Sampled], threads: ThreadPoolExecutor
) -> list[Future[None]]:
    ordered = sorted(paths, key=lambda one: (one.question, one.number))
    jobs = []
    for number, start in enumerate(range(0, len(ordered), PATHS_PER_FILE)):
        file = arguments.run / f"{arguments.keep}-{temperature}.{number}.xz"
        jobs.append(threads.submit(save_paths, file, ordered[start : start + PATHS_PER_FILE]))
    return jobs


if __name__ == "__main__":
    main()
