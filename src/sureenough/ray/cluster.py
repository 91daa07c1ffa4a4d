"""The connection to a Ray cluster, and its nodes; what cannot be used is refused with what to do."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pkgutil import resolve_name
from typing import Any, Final, NamedTuple

from sureenough import __version__
from sureenough.drivers.blocking import in_daemon_thread
from sureenough.engines.openai.errors import KEY_VARIABLES
from sureenough.errors import UsageError
from sureenough.redact import redact

AUTO: Final = "auto"  # the cluster in RAY_ADDRESS, else that of this machine
CONNECT_SECONDS: Final = 60.0
START_SECONDS: Final = 60.0  # for a node to start a process


class Parcel:
    """Settings and keys for processes on nodes, sent by methods: Ray does not store their arguments and results."""

    def __init__(self, content: Any) -> None:
        self._content = content
        self.keys = {name: os.environ[name] for name in (*KEY_VARIABLES, "HF_TOKEN") if os.environ.get(name)}

    def unpack(self) -> Any:
        """The content; the keys become variables of this process."""
        os.environ.update(self.keys)
        return self._content


class Node(NamedTuple):
    """A machine of the cluster."""

    id: str
    address: str


@contextmanager
def connected(address: str) -> Iterator[Any]:
    """The module `ray`, connected to a cluster whose nodes all have this version of the package."""
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # else Ray warns of a future change
    try:
        import ray
    except ImportError:
        raise UsageError("Ray is not installed: pip install 'sureenough[ray]', in the version of the cluster") from None
    # Ray prints the last lines of a dead node's log to the standard output, where our results are, and has no option
    # against it. In versions without this name, the line has no effect.
    ray._private.worker.print_to_stdstream = lambda *_, **__: None
    check_address(address)
    _connect(ray, address)
    try:
        _check_nodes(ray)
        yield ray
    finally:
        ray.shutdown()


def nodes(ray: Any) -> list[Node]:
    """The nodes that may run something: those with a CPU."""
    alive = [node for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU", 0) >= 1]
    return sorted(Node(node["NodeID"], node["NodeManagerAddress"]) for node in alive)


def on_node(ray: Any, node_id: str, thing: Any, **options: Any) -> Any:
    """A function or a class, to be run on a node."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    place = NodeAffinitySchedulingStrategy(node_id, soft=False)
    return ray.remote(thing).options(scheduling_strategy=place, **options)


def _check_nodes(ray: Any) -> None:
    """Refuse nodes that cannot run what they will be sent. One that is just failing is left to the runners."""
    reading = {  # with a function of Python's own library, since ours may be missing
        node: on_node(ray, node.id, resolve_name, num_cpus=0, max_retries=0).remote("sureenough:__version__")
        for node in nodes(ray)
    }
    responds = False
    for node, lookup in reading.items():
        try:
            has = f"sureenough is version {ray.get(lookup, timeout=START_SECONDS)}"
        except (ImportError, AttributeError):  # Ray raises what the function raised
            has = "sureenough is not installed"
        except ray.exceptions.RayError:
            continue
        responds = True
        if has != f"sureenough is version {__version__}":
            raise UsageError(
                f"on node {node.address} {has}, here it is {__version__}: install sureenough {__version__} into "
                "the environment that `ray start` runs in there, with what the engine needs"
            )
    if not responds:
        raise UsageError(
            "no node of the Ray cluster can run anything: `ray status` lists them, and each needs at least one CPU "
            "(`ray start --num-cpus N`)"
        )


def check_address(address: str) -> None:
    """Refuse at once what Ray would try for minutes."""
    address = os.environ.get("RAY_ADDRESS") or address if address == AUTO else address
    if address == AUTO:
        return
    match = re.fullmatch(r"\[?([^\[\]/\s@]+)\]?:(\d{1,5})", address)
    if match is None:
        shown = address.rpartition("@")[2]  # what comes before it may be a password
        raise UsageError(
            f"{redact(shown)} is not the address of a Ray cluster: give HOST:PORT as `ray start` prints it, or auto; "
            "for a ray:// address, run the command on a node of the cluster"
        )
    try:
        socket.create_connection((match[1], int(match[2])), timeout=10).close()
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UsageError(
            f"no Ray cluster responds at {address} ({reason}): start one with `ray start --head`, or give its HOST:PORT"
        ) from None


def _connect(ray: Any, address: str) -> None:
    """Join the cluster; in a thread, because Ray may wait for minutes for something that is not a cluster."""

    async def init() -> None:
        options = {"log_to_driver": False, "logging_level": logging.ERROR}
        joining = in_daemon_thread(lambda: ray.init(address=address, **options), "sureenough-ray")
        await asyncio.wait_for(joining, CONNECT_SECONDS)

    try:
        asyncio.run(init())
    except Exception as error:  # Ray raises errors of many kinds
        problem = redact(str(error))[:300] or f"no response within {CONNECT_SECONDS:g} s"
        raise UsageError(
            f"the Ray cluster at {address} cannot be joined ({problem}): start one with `ray start --head`, run the "
            "command where `ray start` has joined it, and use the same versions of Ray and Python on every machine"
        ) from None
