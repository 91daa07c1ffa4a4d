"""vLLM with the monitor inside, on a GPU: what watched paths reach of vLLM's own speed, and questions by strategy.

    python benchmarks/gpu/watched_vllm.py all MODEL [--dataset FILE.jsonl] [--out FOLDER]  # everything below, by worth
    python benchmarks/gpu/watched_vllm.py tables FOLDER            # its results as tables
    python benchmarks/gpu/watched_vllm.py offline MODEL            # vLLM's own `generate`: the speed to reach
    python benchmarks/gpu/watched_vllm.py inprocess MODEL          # watched paths of `VLLM`, in this process
    sureenough serve-vllm MODEL --served-model-name m ...  # then, beside it:
    python benchmarks/gpu/watched_vllm.py http m           # watched paths over HTTP, and CPU time
    python benchmarks/gpu/watched_vllm.py decisions m      # the monitor's decisions against those by the reply's text
    python benchmarks/gpu/watched_vllm.py questions m --dataset FILE.jsonl

Every phase prints lines of JSON and needs no network. Rates are medians of three turns, of paths that all have the same
length. With --engine load_format=dummy and a folder that holds a config.json and a tokenizer, no weights are needed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
import vllm_plan
import vllm_runner
from vllm_processes import own_turn
from vllm_questions import WIDTHS, decisions, questions
from vllm_tables import print_tables

import sureenough as se
from sureenough.engines.openai.client import OpenAI
from sureenough.vllm.engine import VLLM

QUESTION = (
    "Find the number of ordered pairs of positive integers (a, b) with a + b = 1000 such that neither a nor b has a "
    "zero digit. Put the final answer in \\boxed{}."
)
STRATEGY = "sc:weigh=learned"
"""Reads the confidence of every path, prunes none and has no warm-up that runs alone: all ways sample the same."""
SAMPLING: dict[str, Any] = {"temperature": 0.6, "top_p": 0.95}
FIRST_TOKENS = 48
"""Tokens per path of a first turn that is not measured."""
Turn = Callable[[int, int, int], dict[str, float]]
"""Runs so many paths of so many tokens with a number for the seeds; returns the rate and microseconds per token."""


def report(**values: Any) -> None:
    """One line of JSON."""
    print(
        json.dumps({name: round(value, 4) if isinstance(value, float) else value for name, value in values.items()}),
        flush=True,
    )


def measure(options: argparse.Namespace, phase: str, turn: Turn, **labels: Any) -> None:
    """Several turns per size, each reported at once, and their medians."""
    with own_turn(options.turn):
        turn(options.sizes[0][0], min(FIRST_TOKENS, options.sizes[0][1]), 0)
    for paths, tokens in options.sizes:
        rows = []
        for number in range(options.turns):
            with own_turn(options.turn):
                rows.append(turn(paths, tokens, number + 1))
            report(phase=f"{phase} turn", model=options.label, paths=paths, tokens=tokens, **labels, **rows[-1])
        medians = {name: statistics.median(row[name] for row in rows) for name in rows[0]}
        rates = [round(row["rate"]) for row in rows]
        report(phase=phase, model=options.label, paths=paths, tokens=tokens, **labels, **medians, rates=rates)


def offline(options: argparse.Namespace) -> None:
    """The speed of vLLM's own `generate`, with and without a seed per path, and with or without the monitor."""
    from vllm import LLM, SamplingParams

    from sureenough.engines.watch.protocol import LOGITS_PROCESSOR, WatchRequest

    watching = {"logits_processors": [LOGITS_PROCESSOR]} if options.watched else {}
    llm = LLM(options.model, **watching, **engine_arguments(options))
    messages = [{"role": "user", "content": QUESTION}]
    for seeded in options.seeds:

        def turn(paths: int, tokens: int, number: int, seeded: bool = seeded) -> dict[str, float]:
            keys = [number * 10_000 + path for path in range(paths)]
            watched = [WatchRequest(f"path-{key:08}", 64).to_arguments() for key in keys]
            sampling = [
                SamplingParams(
                    **SAMPLING,
                    max_tokens=tokens,
                    ignore_eos=True,
                    seed=key if seeded else None,
                    extra_args=arguments if options.watched else None,
                )
                for key, arguments in zip(keys, watched, strict=True)
            ]
            start, used = time.perf_counter(), all_cpu_seconds()
            outputs = llm.chat([messages] * paths, sampling, use_tqdm=False)
            total = sum(len(output.outputs[0].token_ids) for output in outputs)
            seconds = time.perf_counter() - start
            return {"rate": total / seconds, "all": (all_cpu_seconds() - used) / total * 1e6}

        measure(options, "offline", turn, watched=options.watched, seeded=seeded)


def all_cpu_seconds() -> float:
    """CPU seconds so far of this process and those that it started."""
    import psutil

    own = psutil.Process()
    return sum(sum(process.cpu_times()[:2]) for process in [own, *own.children(recursive=True)])


def engine_arguments(options: argparse.Namespace) -> dict[str, Any]:
    """Arguments of vLLM's engine that all phases share."""
    given = dict(pair.split("=", 1) for pair in options.engine)
    arguments = {name: json.loads(value) if value[:1] in "0123456789tf{[" else value for name, value in given.items()}
    return {"max_model_len": 4096, "max_num_seqs": 512, "gpu_memory_utilization": 0.6, **arguments}


async def watched(engine: Any, paths: int, seed: int) -> se.Outcome:
    """One question with all its paths at once."""
    return await se.aask(
        QUESTION, engine, STRATEGY, paths=paths, parallel=paths, window=64, seed=seed, hurry=None, gives_up=False
    )


def inprocess(options: argparse.Namespace) -> None:
    """Watched paths of the engine in this process; the client's CPU time is that of this process."""
    with asyncio.Runner() as runner:
        vllm = VLLM(options.model, extra={"ignore_eos": True}, **SAMPLING, **engine_arguments(options))
        loaded = runner.run(vllm.__aenter__())
        try:
            for seeded in options.seeds:
                engine = loaded if seeded else loaded.sampled(seed=None)

                def turn(paths: int, tokens: int, number: int, engine: VLLM = engine) -> dict[str, float]:
                    start, used = time.perf_counter(), time.process_time()
                    out = runner.run(watched(engine.sampled(max_path_tokens=tokens), paths, number))
                    seconds, cpu = time.perf_counter() - start, time.process_time() - used
                    return {"rate": out.tokens.total / seconds, "client": cpu / out.tokens.total * 1e6}

                measure(options, "inprocess", turn, seeded=seeded)
        finally:
            runner.run(vllm.__aexit__())


def server_processes(port: int) -> Iterator[Any]:
    """The process that listens at this port, and its children."""
    import psutil

    for connection in psutil.net_connections("tcp"):
        if connection.laddr and connection.laddr.port == port and connection.status == "LISTEN" and connection.pid:
            server = psutil.Process(connection.pid)
            return iter([server, *server.children(recursive=True)])
    return iter(())


def cpu_seconds(port: int) -> Counter[str]:
    """CPU seconds so far: the client, the API server, the engine."""
    seconds = Counter({"client": time.process_time()})
    for index, process in enumerate(server_processes(port)):
        seconds["engine" if index else "server"] += sum(process.cpu_times()[:2])
    return seconds


def http(options: argparse.Namespace) -> None:
    """Watched paths over HTTP, and the CPU time of every process per token."""
    for seeded in options.seeds:
        extra = {"ignore_eos": True} | ({} if seeded else {"seed": None})

        def turn(paths: int, tokens: int, number: int, extra: dict[str, Any] = extra) -> dict[str, float]:
            engine = OpenAI(options.url, options.model, max_path_tokens=tokens, extra=extra, **SAMPLING)
            start, before = time.perf_counter(), cpu_seconds(options.port)
            out = asyncio.run(watched(engine, paths, number))
            seconds, used = time.perf_counter() - start, cpu_seconds(options.port)
            per_token = {name: (used[name] - before[name]) / out.tokens.total * 1e6 for name in used}
            return {"rate": out.tokens.total / seconds, **per_token}

        measure(options, "http", turn, seeded=seeded)


def sizes(text: str) -> list[tuple[int, int]]:
    """`512x1024,256x2048` as pairs of paths and tokens per path."""
    return [(int(paths), int(tokens)) for paths, tokens in (size.split("x") for size in text.split(","))]


def parse_options() -> argparse.Namespace:
    """The phase and its options."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("phase", choices=PHASES)
    parser.add_argument("model", help="name or folder of a model; for `tables`, the folder of results")
    parser.add_argument("--label", default="1.5B", help="the model's name in the results")
    parser.add_argument("--sizes", type=sizes, default="512x1024", help="paths x tokens of rates: 512x1024,256x2048")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--paths", type=int, default=64, help="questions and decisions: paths at once")
    parser.add_argument("--max-path-tokens", type=int, default=1024, help="questions and decisions: tokens per path")
    parser.add_argument(
        "--engine", nargs="*", default=[], metavar="NAME=VALUE", help="further arguments of vLLM's engine"
    )
    parser.add_argument("--no-seeds", dest="seeds", action="store_const", const=(False,), default=(False, True))
    parser.add_argument("--watched", action="store_true", help="offline: with the monitor inside")
    parser.add_argument("--turn", type=Path, help="rates: wait before each turn until FILE.go exists")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--dataset", type=Path, help="JSON lines with question and answer")
    parser.add_argument("--questions", type=int, default=20)
    parser.add_argument("--strategies", default="sc,ddc,sure,deepconf-low,ac")
    parser.add_argument("--window", type=int, default=64, help="questions and decisions: tokens of a window")
    parser.add_argument("--widths", nargs="+", choices=WIDTHS, default=WIDTHS, help="questions: widths to measure")
    parser.add_argument("--deadline", type=float, help="questions: seconds after which a run ends with the vote so far")
    parser.add_argument("--done", type=Path, help="questions: the lines of an earlier run, which are not repeated")
    vllm_plan.add_options(parser)
    options = parser.parse_args()
    options.url = f"http://127.0.0.1:{options.port}/v1"
    try:
        check_options(options)
    except ValueError as error:
        parser.error(str(error))
    return options


def check_options(options: argparse.Namespace) -> None:
    """ValueError if a phase would find out later that something is missing."""
    if options.phase == "all":
        vllm_plan.phases(options)
    if options.phase == "questions" and options.dataset is None:
        raise ValueError("questions needs --dataset FILE.jsonl, with a question and an answer per line")
    if options.dataset is not None and not options.dataset.is_file():
        raise ValueError(f"--dataset {options.dataset}: not a file")
    if options.phase == "tables" and not Path(options.model).is_dir():
        raise ValueError(f"{options.model} is not a folder of results")


PHASES: dict[str, Callable[[argparse.Namespace], None]] = {
    "all": lambda options: vllm_runner.run_all(options, engine_arguments(options)),
    "tables": lambda options: print_tables(Path(options.model)),
    "offline": offline,
    "inprocess": inprocess,
    "http": http,
    "decisions": decisions,
    "questions": questions,
}


if __name__ == "__main__":
    chosen = parse_options()
    PHASES[chosen.phase](chosen)
