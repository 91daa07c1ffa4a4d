"""Runs the phases of `watched_vllm.py all`: processes, limits of time, the server that several phases share."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vllm_plan import Phase, is_second, phases
from vllm_processes import Process, as_word, responds, spawn, stop

SCRIPT = str(Path(__file__).with_name("watched_vllm.py"))


@dataclass
class Runner:
    """Runs phases within the time that is left."""

    options: argparse.Namespace
    arguments: dict[str, Any]  # of vLLM's engine
    state: dict[str, dict[str, Any]] = field(default_factory=dict)
    loading: dict[str, Process] = field(default_factory=dict)
    servers: dict[int, Process] = field(default_factory=dict)  # by port

    def __post_init__(self) -> None:
        self.end: float = time.monotonic() + self.options.seconds
        self.out: Path = self.options.out
        self.out.mkdir(parents=True, exist_ok=True)
        if (self.out / "state.json").exists():
            self.state = json.loads((self.out / "state.json").read_text())

    def run(self, plan: Iterable[Phase]) -> None:
        """All phases that are not done; then again those that were cut, as long as there is time."""
        due = [phase for phase in plan if self.status(phase) != "done"]
        try:
            if self.options.load_together:
                self.load_all(due)
                self.await_loading(due)
            while due:
                for phase in due:
                    if self.left() > 5:
                        self.keep(phase, **self.measure(phase, phase.seconds))
                due = [phase for phase in due if phase.continues and self.status(phase) == "cut"]
                if self.left() < 30:
                    break
        finally:
            stop([*self.loading.values(), *([] if self.options.keep_servers else self.servers.values())])

    def status(self, phase: Phase) -> str | None:
        """What became of a phase; None if it had no turn."""
        return self.state.get(phase.name, {}).get("status")

    def left(self) -> float:
        """Seconds that are left of the whole run."""
        return self.end - time.monotonic()

    def load_all(self, due: list[Phase]) -> None:
        """Start everything that loads a model; the second model, which needs no weights, first."""
        parts = [part for phase in due for part in phase.processes]
        for phase in sorted(parts, key=lambda phase: not is_second(phase)):
            if not is_second(phase):
                self.await_model()
            if phase.engine:
                self.loading[phase.name] = self.start(phase)
            elif self.port(phase) not in self.servers and not responds(self.port(phase)):
                self.servers[self.port(phase)] = self.start_server(phase)

    def await_loading(self, due: list[Phase], seconds: float = 60) -> None:
        """Wait for the first server, and a little longer for the others, whose loading would disturb it."""
        try:
            for part in [part for phase in due for part in phase.processes if not part.engine][:1]:
                self.ensure_server(part)
        except OSError:
            return  # the first phase that needs the server starts another one
        end = time.monotonic() + min(seconds, self.left())
        while time.monotonic() < end and self.is_loading():
            time.sleep(0.2)

    def is_loading(self) -> bool:
        """Whether an engine or a server is still loading its model."""
        engines = [process for name, process in self.loading.items() if not (self.out / f"{name}.loaded").exists()]
        servers = [process for port, process in self.servers.items() if not responds(port)]
        return any(process.poll() is None for process in engines + servers)

    def await_model(self) -> None:
        """Wait for weights that are still being written; their config.json comes last."""
        end = time.monotonic() + min(self.options.await_model, self.left())
        while time.monotonic() < end and not (Path(self.options.model) / "config.json").exists():
            time.sleep(0.5)

    def start(self, phase: Phase) -> Process:
        """The process of a phase. Those that load a model wait for their turn after it."""
        turn = self.out / phase.name
        own = [] if self.options.label == "1.5B" else ["--label", self.options.label]
        arguments = [*phase.arguments[:2], *own, *phase.arguments[2:], "--turns", str(self.options.turns)]
        arguments += [] if len(self.options.seeds) > 1 else ["--no-seeds"]
        arguments += ["--port", str(self.port(phase))]
        if "--max-path-tokens" not in arguments:
            arguments += ["--max-path-tokens", str(self.options.max_path_tokens)]
        if "--questions" not in arguments:
            arguments += ["--questions", str(self.options.questions)]
        if phase.engine:
            words = [f"{name}={as_word(value)}" for name, value in self.engine_arguments(phase).items()]
            arguments += ["--engine", *words]
        if phase.takes_turns:
            for suffix in (".loaded", ".go"):
                Path(f"{turn}{suffix}").unlink(missing_ok=True)
            arguments += ["--turn", str(turn)]
        elif phase.continues:
            arguments += ["--done", str(self.out / f"{phase.name}.jsonl")]
        return spawn(
            [sys.executable, SCRIPT, *arguments], self.out / f"{phase.name}.jsonl", self.out / f"{phase.name}.log"
        )

    def engine_arguments(self, phase: Phase) -> dict[str, Any]:
        """VLLM's arguments for the engine or the server of a phase."""
        if is_second(phase):
            return self.arguments | self.cache(2) | {"load_format": "dummy"}
        return self.arguments | self.cache(1 if phase.engine else 0)

    def port(self, phase: Phase) -> int:
        """The port of the server that a phase uses; the second model's follows the first one's."""
        return int(self.options.port) + is_second(phase)

    def cache(self, place: int) -> dict[str, float]:
        """The arguments for the size of an engine's cache, if sizes were given."""
        if not self.options.cache_gb:
            return {}
        size = int(float(self.options.cache_gb.split(",")[place]) * 2**30)
        # vLLM does not start if less than this share of the GPU is free, although it takes `size`.
        return {"kv_cache_memory_bytes": size, "gpu_memory_utilization": 0.1}

    def start_server(self, phase: Phase) -> Process:
        """The server of a phase, which others use too."""
        arguments = self.engine_arguments(phase)
        arguments |= {"served_model_name": "m", "host": "127.0.0.1", "port": self.port(phase)}
        model, log = self.options.model, self.out / "server.log"
        if is_second(phase):
            model, log = self.options.second, self.out / "server-7B.log"
        command = [sys.executable, "-m", "sureenough", "serve-vllm", model]
        for name, value in arguments.items():
            command += [f"--{name.replace('_', '-')}", *([] if value is True else [as_word(value)])]
        return spawn(command, log, log)

    def measure(self, phase: Phase, seconds: float) -> dict[str, Any]:
        """Run a phase, with all its parts, and say what became of it."""
        began = time.monotonic()
        running = list[tuple[Phase, Process]]()
        try:
            for part in phase.processes:
                if not part.engine:
                    self.ensure_server(part)
                loading = part.name in self.loading
                running.append((part, self.loading.pop(part.name) if loading else self.start(part)))
            for part, process in running:
                if part.takes_turns:
                    self.wait_until_loaded(part, process)
            loaded = time.monotonic()
            self.await_end(running, loaded + min(seconds, max(1.0, self.left())))
            codes = [process.returncode for _, process in running if process.returncode]
            status = f"failed with exit code {codes[0]}" if codes else "done"
            return {"status": status, "loading": loaded - began, "seconds": time.monotonic() - loaded}
        except TimeoutError:
            return {"status": "cut", "seconds": time.monotonic() - began}
        except OSError as error:
            return {"status": f"failed: {error}", "seconds": time.monotonic() - began}
        finally:
            stop(process for _, process in running)

    def await_end(self, running: list[tuple[Phase, Process]], end: float) -> None:
        """Give processes their turns, one after another, until all have ended; TimeoutError after `end`."""
        while any(process.poll() is None for _, process in running):
            for phase, process in running:
                go = self.out / f"{phase.name}.go"
                if phase.takes_turns:
                    go.touch()
                while process.poll() is None and (go.exists() or not phase.takes_turns):
                    if time.monotonic() > end:
                        raise TimeoutError
                    time.sleep(0.02)

    def wait_until_loaded(self, phase: Phase, process: Process) -> None:
        """Wait for the file that a process writes when its model is loaded."""
        end = time.monotonic() + min(self.options.load_seconds, self.left())
        while not (self.out / f"{phase.name}.loaded").exists():
            if process.poll() is not None or time.monotonic() > end:
                raise OSError(f"the model did not load; see {phase.name}.log")
            time.sleep(0.2)

    def ensure_server(self, phase: Phase) -> None:
        """Wait until a phase's server responds; if it has died, start another one."""
        port, end = self.port(phase), time.monotonic() + min(self.options.load_seconds, self.left())
        if not responds(port) and (port not in self.servers or self.servers[port].poll() is not None):
            self.servers[port] = self.start_server(phase)
        while not responds(port):
            server = self.servers.get(port)
            if server is None or server.poll() is not None or time.monotonic() > end:
                stop([self.servers.pop(port)] if server else [])
                raise OSError(f"the server at port {port} did not start; see its log")
            time.sleep(0.5)

    def keep(self, phase: Phase, **outcome: Any) -> None:
        """Write down what became of a phase."""
        self.state[phase.name] = {
            name: round(value, 1) if isinstance(value, float) else value for name, value in outcome.items()
        }
        (self.out / "state.json").write_text(json.dumps(self.state, indent=1))
        print(json.dumps({"phase": phase.name, **self.state[phase.name], "left": round(self.left())}), flush=True)


def run_all(options: argparse.Namespace, arguments: dict[str, Any]) -> None:
    """Run the plan; a signal to end stops everything that was started."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    Runner(options, arguments).run(phases(options))
