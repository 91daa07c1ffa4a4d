"""Consensus inside `vllm serve`, on a GPU: its speed, its cost, and seconds per question. One command measures all.

    PYTHONPATH=SITE python benchmarks/gpu/served_vllm.py MODEL --dataset math500.jsonl --out $OUT
    PYTHONPATH=SITE python benchmarks/gpu/served_vllm.py MODEL --dataset math500.jsonl --out $OUT --only questions
    python benchmarks/gpu/served_vllm.py --tables $OUT

SITE is a folder with vLLM 0.32 and what it needs; leave it out if vLLM is installed. MODEL is a folder with weights,
and FILE has a `question` and an `answer` per line of JSON. This package need not be installed: a folder with its entry
points is made beside the results. It needs no network.

- `kernel`: milliseconds of the monitor's first kernel, 256 x 151,936 float32, and of a plain read of the logits.
- `rates`: tokens per second of vLLM's own `generate`, and of a consensus inside `vllm serve`, turn by turn; CPU per
  token of the API process. `sc` reads no confidence, `sc:weigh=learned` does.
- `plain`: plain requests through a server with the plug-in, and through one without it, turn by turn.
- `questions`: seconds and tokens per question by strategy, first with 64 paths, then with 512.

Everything is written at once: a line of JSON per turn and question in OUT/served.jsonl, the processes' logs beside it.
A run that is cut off goes on with the same command: finished turns and questions are not repeated. All engines load
side by side before the first step (three for `rates` and `plain`, one for `questions`); --seconds ends the run in time.
--tiny runs all but the kernel at small sizes on a CPU:

    VLLM_CPU_OMP_THREADS_BIND=nobind VLLM_CPU_KVCACHE_SPACE=1 TORCHDYNAMO_DISABLE=1 HF_HUB_OFFLINE=1 \\
        python benchmarks/gpu/served_vllm.py FOLDER --tiny --out /tmp/tiny
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import statistics
import subprocess
import sys
import time
import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from vllm_processes import Process, responds, stop

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "src"))
STEPS = ("kernel", "rates", "plain", "questions")
TURNS = 3
STRATEGIES = ("sc", "ac", "ddc", "sure")
RATED = ("sc", "sc:weigh=learned")
SAMPLING = {"temperature": 0.6, "top_p": 0.95}
QUESTION = (
    "Find the number of ordered pairs of positive integers (a, b) with a + b = 1000 such that neither a nor b has a "
    "zero digit. Put the final answer in \\boxed{}."
)
CAPTURED = [1, 2, 4, 8, 16, 32, 64, 96, 128, 192, 256, 384, 512]
"""Batch sizes with CUDA graphs: fewer of them load faster."""
Row = dict[str, Any]


class Results:
    """Lines of JSON, those of earlier runs among them."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.file = folder / "served.jsonl"
        self.rows: list[Row] = read_rows(self.file)

    def add(self, **row: Any) -> None:
        row = {name: round(value, 5) if isinstance(value, float) else value for name, value in row.items()}
        self.rows.append(row)
        with self.file.open("a") as lines:
            lines.write(json.dumps(row) + "\n")
        print(json.dumps(row), flush=True)

    def has(self, **terms: Any) -> bool:
        return any(terms.items() <= row.items() for row in self.rows)


def read_rows(file: Path) -> list[Row]:
    """The lines that are complete."""
    rows = []
    for line in file.read_text().splitlines() if file.exists() else ():
        try:
            rows.append(json.loads(line))
        except ValueError:
            continue
    return rows


# -- the processes


def installed_here(out: Path) -> str:
    """A PYTHONPATH with this package and its entry points, as if it were installed."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    folder = out / "installed" / "sureenough-0.dist-info"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: sureenough\nVersion: 0\n")
    groups = [
        f"[{group}]\n" + "".join(f"{name} = {target}\n" for name, target in points.items())
        for group, points in project["entry-points"].items()
    ]
    (folder / "entry_points.txt").write_text("\n".join(groups))
    return os.pathsep.join([str(folder.parent), str(ROOT / "src")])


class Machine:
    """The processes of a run: two servers and vLLM's `generate`, as far as they are needed."""

    def __init__(self, options: argparse.Namespace, results: Results) -> None:
        self.options, self.results = options, results
        self.processes: dict[str, Process] = {}
        self.ports = {"inside": options.port, "without": options.port + 1}

    def arguments(self) -> dict[str, Any]:
        """Arguments of vLLM's engine; each has its part of the GPU's memory."""
        given: dict[str, Any] = self.options.engine
        if self.options.tiny:
            return {"max_model_len": 2048, "max_num_seqs": 64, "enforce_eager": True} | given
        return {
            "max_model_len": 4096, "max_num_seqs": 512, "gpu_memory_utilization": 0.25,
            "kv_cache_memory_bytes": 20_000_000_000, "compilation_config": {"cudagraph_capture_sizes": CAPTURED},
        } | given  # fmt: skip

    def start(self, names: list[str]) -> None:
        """Start them side by side, and wait until all are ready."""
        began = time.monotonic()
        for name in names:
            own = installed_here(self.options.out) if name == "inside" else ""
            path = os.pathsep.join(filter(None, [own, os.environ.get("PYTHONPATH", "")]))
            environment = os.environ | {"PYTHONPATH": path, "VLLM_PLUGINS": "sureenough" if name == "inside" else ""}
            with (self.options.out / f"{name}.log").open("ab") as log:
                self.processes[name] = subprocess.Popen(
                    self.command(name), stdin=subprocess.PIPE, stdout=subprocess.PIPE if name == "offline" else log,
                    stderr=log, env=environment, start_new_session=True,
                )  # fmt: skip
        for name in names:
            self.wait_for(name, began + self.options.load_seconds)
            self.results.add(step="loaded", name=name, seconds=time.monotonic() - began)

    def command(self, name: str) -> list[str]:
        if name == "offline":
            return [sys.executable, __file__, self.options.model, "--offline", json.dumps(self.arguments())]
        words = [sys.executable, "-m", "vllm.entrypoints.launchers.api_server.entry", "--model", self.options.model]
        words += ["--served-model-name", "m", "--host", "127.0.0.1", "--port", str(self.ports[name])]
        for option, value in self.arguments().items():
            flag = f"--{option.replace('_', '-')}"
            words += [flag] if value is True else [flag, value if isinstance(value, str) else json.dumps(value)]
        return words

    def wait_for(self, name: str, end: float) -> None:
        process = self.processes[name]
        if name == "offline":
            self.answer("offline")
            return
        while not responds(self.ports[name]):
            if process.poll() is not None or time.monotonic() > end:
                tail = (self.options.out / f"{name}.log").read_text(errors="replace")[-3000:]
                raise SystemExit(f"{tail}\n{name} did not start")
            time.sleep(0.5)

    def answer(self, name: str) -> Row:
        """The next line of JSON that a process prints among its own messages."""
        lines: Any = self.processes[name].stdout
        for line in lines:
            if line.startswith(b'{"offline"'):
                row: Row = json.loads(line)
                return row
        raise SystemExit(f"{name} has ended; see its log")

    def generate(self, paths: int, tokens: int) -> Row:
        """One turn of vLLM's own `generate`."""
        words: Any = self.processes["offline"].stdin
        words.write(json.dumps([paths, tokens]).encode() + b"\n")
        words.flush()
        return self.answer("offline")

    def cpu_seconds(self, name: str) -> float:
        """CPU seconds so far of a server's API process, without its engine."""
        fields = Path(f"/proc/{self.processes[name].pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def serve_offline(model: str, arguments: str) -> None:
    """The process of vLLM's own `generate`: a line with paths and tokens in, a line with the rate out."""
    from vllm import LLM, SamplingParams

    llm = LLM(model, **json.loads(arguments))
    print(json.dumps({"offline": "loaded"}), flush=True)
    for line in sys.stdin:
        paths, tokens = json.loads(line)
        sampling = SamplingParams(**SAMPLING, max_tokens=tokens, ignore_eos=True)
        began = time.perf_counter()
        outputs = llm.chat([[{"role": "user", "content": QUESTION}]] * paths, sampling, use_tqdm=False)
        seconds = time.perf_counter() - began
        total = sum(len(output.outputs[0].token_ids) for output in outputs)
        print(json.dumps({"offline": "turn", "tokens": total, "seconds": seconds}), flush=True)


# -- the steps


async def post(port: int, body: Row) -> Row:
    """A chat request to a server, and its reply."""
    import aiohttp

    timeout, connector = aiohttp.ClientTimeout(900), aiohttp.TCPConnector(limit=0)
    url = f"http://127.0.0.1:{port}/v1/chat/completions"
    session = aiohttp.ClientSession(timeout=timeout, connector=connector)
    async with session, session.post(url, json=body) as reply:
        parsed: Row = await reply.json()
    if reply.status != 200:
        raise RuntimeError(f"status {reply.status}: {json.dumps(parsed)[:500]}")
    return parsed


def consensus(
    machine: Machine, strategy: str, question: str, tokens: int, options: Row, **more: Any
) -> tuple[Row, float]:
    """The reply to a consensus inside the server, and its seconds."""
    body = {"model": f"m@{strategy}", "messages": [{"role": "user", "content": question}], "max_tokens": tokens}
    began = time.perf_counter()
    reply = asyncio.run(post(machine.ports["inside"], body | SAMPLING | more | {"sureenough": options}))
    return reply, time.perf_counter() - began


def kernel(machine: Machine) -> None:
    """The kernel against a plain read, by `kernel.py`."""
    file = machine.options.out / "kernel.json"
    command = [sys.executable, str(Path(__file__).with_name("kernel.py")), "--quick", "--json", str(file)]
    subprocess.run(command, check=False, stdout=subprocess.DEVNULL, timeout=300)
    figures = json.loads(file.read_text())
    for line in figures.get("table", ()):
        names = ("rows", "vocab", "dtype", "ours", "read", "loop")
        machine.results.add(step="kernel", **{name: line[name] for name in names})
    machine.results.add(step="kernel check", check=figures.get("check"), error=figures.get("error"))


def rates(machine: Machine) -> None:
    """Tokens per second of `generate` and of consensus inside the server, turn by turn."""
    paths, tokens = (8, 32) if machine.options.tiny else (512, 512)

    def generate(turn: int) -> Row:
        row = machine.generate(paths, tokens if turn else 16)
        return {"rate": row["tokens"] / row["seconds"]}

    def inside(strategy: str, turn: int) -> Row:
        used = machine.cpu_seconds("inside")
        options = {"paths": paths, "parallel": paths, "seed": turn, "window": 64}
        most = tokens if turn else 16
        reply, seconds = consensus(machine, strategy, QUESTION, most, options, ignore_eos=True)
        made, notes = reply["usage"]["completion_tokens"], reply["sureenough"]["notes"][:3]
        cpu = machine.cpu_seconds("inside") - used
        return {"rate": made / seconds, "cpu": cpu / made * 1e6, "made": made, "notes": notes}

    ways: dict[str, Callable[[int], Row]] = {"generate": generate}
    ways |= {f"inside, {strategy}": partial(inside, strategy) for strategy in RATED}
    turn_by_turn(machine.results, "rates", ways, paths=paths, tokens=tokens)


def plain(machine: Machine) -> None:
    """Tokens per second of plain requests, with the plug-in and without, turn by turn."""
    requests, tokens = (8, 32) if machine.options.tiny else (512, 256)
    body = {"model": "m", "messages": [{"role": "user", "content": QUESTION}], "ignore_eos": True, **SAMPLING}

    async def all_of(name: str, turn: int) -> int:
        replies = [post(machine.ports[name], body | {"max_tokens": tokens if turn else 16}) for _ in range(requests)]
        return sum(reply["usage"]["completion_tokens"] for reply in await asyncio.gather(*replies))

    def through(name: str, turn: int) -> Row:
        used, began = machine.cpu_seconds(name), time.perf_counter()
        made = asyncio.run(all_of(name, turn))
        seconds = time.perf_counter() - began
        return {"rate": made / seconds, "cpu": (machine.cpu_seconds(name) - used) / made * 1e6}

    ways: dict[str, Callable[[int], Row]] = {
        "without the plug-in": lambda turn: through("without", turn),
        "with the plug-in": lambda turn: through("inside", turn),
    }
    turn_by_turn(machine.results, "plain", ways, paths=requests, tokens=tokens)


def turn_by_turn(results: Results, step: str, ways: dict[str, Callable[[int], Row]], **labels: Any) -> None:
    """Every way in turn, once to warm up and then three times."""
    for turn in range(TURNS + 1):
        for way, measure in ways.items():
            if turn and results.has(step=step, way=way, turn=turn, **labels):
                continue
            row = measure(turn)
            if turn:
                results.add(step=step, way=way, turn=turn, **labels, **row)


def questions(machine: Machine) -> None:
    """Seconds per question: all strategies answer one before the next, so that a run that is cut off leaves a table."""
    options = machine.options
    asked = list(dataset(options))[: 2 if options.tiny else options.questions]
    for paths in (16, 24) if options.tiny else (64, 512):
        consensus(machine, "sc", QUESTION, 16, {"paths": 2, "parallel": 2})  # the first request is slow
        for number, line in enumerate(asked):
            for strategy in options.strategies:
                terms = {"step": "question", "paths": paths, "number": number, "strategy": strategy}
                if machine.results.has(**terms):
                    continue
                settings = {"paths": paths, "parallel": paths, "seed": number}
                machine.results.add(**terms, **ask(machine, strategy, line, settings))


def ask(machine: Machine, strategy: str, line: Row, settings: Row) -> Row:
    """The figures of one question, or its error."""
    try:
        reply, seconds = consensus(machine, strategy, line["question"], machine.options.path_tokens, settings)
    except RuntimeError as error:
        return {"error": str(error)}
    from sureenough.answers import same

    run = reply["sureenough"]
    named = {name: run[name] for name in ("started", "pruned", "failed", "reason")}
    right = run["answer"] is not None and same(run["answer"], str(line["answer"]))
    return {"seconds": seconds, "tokens": run["tokens"]["total"], **named, "right": right}


def dataset(options: argparse.Namespace) -> Iterator[Row]:
    if options.dataset is None:
        yield from ({"question": f"Compute {number} + 30.", "answer": str(number + 30)} for number in range(12, 22))
    else:
        yield from map(json.loads, options.dataset.read_text().splitlines())


# -- the tables


def print_tables(rows: list[Row]) -> None:
    """The rows of the documentation."""
    for row in rows:
        if row["step"] == "kernel":
            size = f"{row['rows']} x {row['vocab']:,} {row['dtype']}"
            ours, loop = row["ours"], row["loop"]
            print(f"kernel, {size}: {ours:.4f} ms, {ours / row['read']:.2f} reads; a loop over rows {loop:.1f} ms")
        elif row["step"] == "kernel check" and row["check"]:
            check = row["check"]
            cases, worst = check["cases"], check["worst"]
            print(f"against float64: {cases} cases, {len(check['wrong'])} wrong, largest error {worst:.1e}")
    for step, base in (("rates", "generate"), ("plain", "without the plug-in")):
        ways = defaultdict[str, list[Row]](list)
        for row in rows:
            if row["step"] == step:
                ways[row["way"]].append(row)
        if not ways:
            continue
        whole = statistics.median(row["rate"] for row in ways[base]) if ways.get(base) else float("nan")
        print(f"\n| {step} | tokens/s | of {base} | us of CPU per token, API process |\n|---|---|---|---|")
        for way, turns in ways.items():
            made, cpu = [row["rate"] for row in turns], [row["cpu"] for row in turns if "cpu" in row]
            median, each = statistics.median(made), ", ".join(f"{rate:,.0f}" for rate in made)
            shown = f"{statistics.median(cpu):.1f}" if cpu else ""
            print(f"| {way} | {median:,.0f} [{each}] | {median / whole:.3f} | {shown} |")
    print_questions([row for row in rows if row["step"] == "question" and "seconds" in row])


def print_questions(rows: list[Row]) -> None:
    for paths in sorted({row["paths"] for row in rows}):
        print(f"\n| {paths} paths | questions | right | tokens | seconds: median | mean | worst |")
        print("|---|---|---|---|---|---|---|")
        for strategy in dict.fromkeys(row["strategy"] for row in rows):
            mine = [row for row in rows if (row["paths"], row["strategy"]) == (paths, strategy)]
            seconds = [row["seconds"] for row in mine]
            if mine:
                tokens = statistics.fmean(row["tokens"] for row in mine)
                times = f"{statistics.median(seconds):.2f} | {statistics.fmean(seconds):.2f} | {max(seconds):.2f}"
                right = sum(row["right"] for row in mine)
                print(f"| {strategy} | {len(mine)} | {right} | {tokens:,.0f} | {times} |")


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """A TimeoutError ends what takes longer."""

    def end(*_: object) -> None:
        raise TimeoutError

    signal.signal(signal.SIGALRM, end)
    signal.alarm(int(seconds))
    try:
        yield
    finally:
        signal.alarm(0)


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", help="folder of a model")
    parser.add_argument("--out", type=Path, default=Path(os.environ.get("OUT", "results")), help="folder of results")
    parser.add_argument("--only", nargs="+", choices=STEPS, default=STEPS, help="these steps")
    parser.add_argument("--dataset", type=Path, help="JSON lines with question and answer; built-in sums without it")
    parser.add_argument("--questions", type=int, default=10)
    parser.add_argument("--strategies", nargs="+", default=STRATEGIES)
    parser.add_argument("--path-tokens", type=int, default=1024, help="most tokens of a path of a question")
    parser.add_argument("--seconds", type=float, default=580, help="limit of the whole run")
    parser.add_argument("--load-seconds", type=float, default=420, help="limit of loading the models")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--engine", type=json.loads, default={}, metavar="JSON", help="arguments of vLLM's engine")
    parser.add_argument("--tiny", action="store_true", help="small sizes, on a CPU")
    parser.add_argument("--tables", type=Path, metavar="OUT", help="print the tables of a run, and measure nothing")
    parser.add_argument("--offline", metavar="JSON", help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    options = parse_options()
    if options.offline is not None:
        serve_offline(options.model, options.offline)
        return
    if options.tables is not None:
        print_tables(read_rows(options.tables / "served.jsonl"))
        return
    steps: dict[str, Callable[[Machine], None]] = {"rates": rates, "plain": plain, "questions": questions}
    machine = Machine(options, Results(options.out))
    chosen = [step for step in options.only if step != "kernel"]
    needed = {"rates": ["inside", "offline"], "plain": ["inside", "without"], "questions": ["inside"]}
    try:
        with within(options.seconds):
            if "kernel" in options.only and not options.tiny:
                kernel(machine)
            machine.start(list(dict.fromkeys(name for step in chosen for name in needed[step])))
            for step in chosen:
                steps[step](machine)
    except TimeoutError:
        print(f"cut off after {options.seconds:g} s; the same command goes on", flush=True)
    finally:
        stop(machine.processes.values())
        print_tables(machine.results.rows)


if __name__ == "__main__":
    main()
