"""`--ray [ADDRESS]`: paths are sampled on the nodes of a Ray cluster."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

import typer

from sureenough.errors import UsageError
from sureenough.redact import printable_command

if TYPE_CHECKING:
    from sureenough.cli.engine import EngineOptions
    from sureenough.drivers.executor import Executor
    from sureenough.drivers.ray_cluster import RayCluster
    from sureenough.engines.base import Engine

FLAG: Final = "--ray"
RayAddress = Annotated[
    str | None,
    typer.Option(
        FLAG,
        metavar="[ADDRESS]",
        help="Work on the nodes of a Ray cluster: HOST:PORT; without it that of RAY_ADDRESS or of this machine.",
    ),
]


def with_addresses(words: Sequence[str]) -> list[str]:
    """The words of a command, with `--ray` as `--ray=auto` unless an address follows it."""
    complete = []
    for at, word in enumerate(words):
        has_address = re.fullmatch(r"auto|ray://.*|[\w.\[\]:-]*:\d+", " ".join(words[at + 1 : at + 2]))
        complete.append(f"{FLAG}=auto" if word == FLAG and not has_address else word)
    return complete


def join(address: str | None, call: typer.Context, *, dry_run: bool = False) -> RayCluster | None:
    """The cluster, until the command ends; None without an address."""
    if address is None:
        return None
    if dry_run:
        raise UsageError("--dry-run samples on this machine: leave --ray out")
    words = sys.argv[1:]
    if printable_command(words) != shlex.join(words):
        raise UsageError(
            "Ray shows the command lines of its jobs to all its users, and this one has a URL with a password or a "
            "query: put the URL into SUREENOUGH_URL or a plan, or the key into SUREENOUGH_API_KEY"
        )
    from sureenough.drivers.ray_cluster import connected

    return call.with_resource(connected(address))


def on_cluster(cluster: RayCluster, make_engine: Callable[[], Engine]) -> Executor:
    """What samples on every node, from an engine that is made there."""
    from sureenough.drivers.ray_executor import RayExecutor

    return RayExecutor(cluster, make_engine)


VllmModel = Annotated[
    str | None,
    typer.Option(
        "--vllm", metavar="MODEL", help="With --ray: start vLLM with this model on every GPU, the monitor inside."
    ),
]
VllmResources = Annotated[
    str,
    typer.Option(help="With --vllm: what one server takes of a node, such as GPU=2,CPU=8.", metavar="NAME=N,…"),
]
VllmOptions = Annotated[str, typer.Option(help="With --vllm: options of vLLM, in one string.", metavar="WORDS")]


class VllmChoice(NamedTuple):
    """The three options."""

    model: str
    resources: dict[str, float]
    words: tuple[str, ...]

    @classmethod
    def of(
        cls, model: str | None, resources: str, words: str, ray: str | None, server: EngineOptions
    ) -> VllmChoice | None:
        """None without `--vllm`."""
        if model is None and words:
            raise UsageError("--vllm-options are for the servers of --vllm: name its MODEL, or leave them out")
        if model is None:
            return None
        if ray is None:
            raise UsageError(
                f"--vllm starts servers on a Ray cluster: add --ray, or start `sureenough serve-vllm {model}` and give "
                "its --url"
            )
        if server.url or server.model or server.plugin:
            raise UsageError("--vllm is the engine: leave out --url, --model and --engine, and what sets them")
        pairs = re.findall(r"([A-Za-z_][\w:.-]*)=([0-9]{1,6}(?:\.[0-9]{1,4})?)(?:,|$)", resources)
        needs = {"CPU": 1.0} | {name: float(number) for name, number in pairs}
        if ",".join(f"{name}={number}" for name, number in pairs) != resources or min(needs.values()) <= 0:
            raise UsageError(f"--vllm-resources {resources} will not do: give numbers above 0, such as GPU=2,CPU=8")
        try:
            return cls(model, needs, tuple(shlex.split(words)))
        except ValueError as error:
            raise UsageError(f"--vllm-options cannot be read ({error})") from None

    def engine_options(self, server: EngineOptions) -> EngineOptions:
        """For the command itself, which sends no request; every runner knows the address of its own server."""
        return replace(server, url=["http://127.0.0.1/v1"], model=self.model)

    def on(self, cluster: RayCluster, engine_at: Callable[[str], Engine]) -> Executor:
        """What samples from a server on every place of the cluster that can hold one."""
        from sureenough.drivers.ray_executor import RayExecutor
        from sureenough.drivers.ray_vllm import VllmServer

        if not cluster.places(self.resources):
            needs = " and ".join(f"{name}={number:g}" for name, number in self.resources.items())
            raise UsageError(f"no node of the Ray cluster has {needs} for a vLLM server; see --vllm-resources")
        return RayExecutor(cluster, VllmServer(self.model, self.words, self.resources, engine_at))
