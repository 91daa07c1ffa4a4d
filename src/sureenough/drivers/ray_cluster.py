"""The connection to a Ray cluster, and its nodes; what cannot be used is refused with what to do."""

from __future__ import annotations

import logging
import os
import pkgutil
import platform
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from sureenough import __version__
from sureenough.errors import UsageError
from sureenough.redact import first_line, redact

AUTO: Final = "auto"
"""The cluster in RAY_ADDRESS, else that of this machine."""
CONNECT_SECONDS: Final = 60.0
START_SECONDS: Final = 60.0
"""For a node to start a process."""
LOST_SECONDS: Final = 60.0
"""Without any node, before the work ends; nodes may come back."""
NO_NODE_LEFT: Final = (
    "no node of the Ray cluster is left to work on: start nodes again (`ray status` lists them) and give the same "
    "command"
)


class Node(NamedTuple):
    """A machine of the cluster."""

    id: str
    address: str


class RayCluster:
    """A connection to a cluster whose nodes all have this version of the package."""

    def __init__(self, ray: Any) -> None:
        self.ray = ray

    def nodes(self) -> list[Node]:
        """The nodes that may run something: those with a CPU."""
        alive = [node for node in self.ray.nodes() if node["Alive"] and node["Resources"].get("CPU", 0) >= 1]
        return sorted(Node(node["NodeID"], node["NodeManagerAddress"]) for node in alive)

    def on(self, node: Node, thing: Any, **options: Any) -> Any:
        """A function or a class, to be run on a node."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        place = NodeAffinitySchedulingStrategy(node.id, soft=False)
        return self.ray.remote(thing).options(scheduling_strategy=place, **options)

    def check_nodes(self) -> None:
        """Refuse nodes that cannot run what they will be sent. One that is just failing is left to the runners."""
        versions = self._versions()
        if not versions:
            raise UsageError(
                "no node of the Ray cluster can run anything: `ray status` lists them, and each needs at least one CPU "
                "(`ray start --num-cpus N`)"
            )
        for node, version in versions.items():
            if version != __version__:
                has = "sureenough is not installed" if version is None else f"sureenough is version {version}"
                raise UsageError(
                    f"on node {node.address} {has}, here it is {__version__}: install sureenough {__version__} into "
                    "the environment that `ray start` runs in there, with what the engine needs"
                )

    def _versions(self) -> dict[Node, str | None]:
        """The package's version on every node that responds; None if it is missing there.

        A function of Python's own library reads it, since ours may be missing.
        """
        lookups = {
            node: self.on(node, pkgutil.resolve_name, num_cpus=0, max_retries=0).remote("sureenough:__version__")
            for node in self.nodes()
        }
        if lookups:
            self.ray.wait(list(lookups.values()), num_returns=len(lookups), timeout=START_SECONDS)
        versions: dict[Node, str | None] = {}
        for node, lookup in lookups.items():
            try:
                versions[node] = str(self.ray.get(lookup, timeout=0))
            except (ImportError, AttributeError):  # Ray raises what the function raised
                versions[node] = None
            except self.ray.exceptions.RayError:
                continue
        return versions


@contextmanager
def connected(address: str) -> Iterator[RayCluster]:
    """A cluster that is ready for work.

    Raises:
        UsageError: there is none, or not one that this process can use.
    """
    ray = _import_ray()
    _check_address(address)
    _connect(ray, address)
    try:
        cluster = RayCluster(ray)
        cluster.check_nodes()
        yield cluster
    finally:
        ray.shutdown()


def _import_ray() -> Any:
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # else Ray warns of a future change
    try:
        import ray
    except ImportError:
        raise UsageError("Ray is not installed: pip install 'sureenough[ray]', in the version of the cluster") from None
    # Ray prints the last lines of a dead node's log to the standard output, where our results are, and has no option
    # against it. In versions without this name, the line has no effect.
    ray._private.worker.print_to_stdstream = lambda *_, **__: None
    return ray


def _check_address(address: str) -> None:
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
    errors: list[Exception] = []

    def connect() -> None:
        try:
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
        except Exception as error:  # Ray raises errors of many kinds
            errors.append(error)

    thread = threading.Thread(target=connect, name="sureenough-ray", daemon=True)
    thread.start()
    thread.join(CONNECT_SECONDS)
    if thread.is_alive():
        raise UsageError(
            f"no Ray cluster responded at {address} within {CONNECT_SECONDS:g} s: `ray status` should list it"
        )
    if not errors:
        return
    text = str(errors[0])
    if "ersion mismatch" in text:
        versions = re.findall(r"(?:Ray|Python): ([\w.+-]+)", text)
        theirs = "Ray {} and Python {}".format(*versions) if len(versions) >= 2 else "another version"
        raise UsageError(
            f"the Ray cluster at {address} runs {theirs}, this command Ray {ray.__version__} and Python "
            f"{platform.python_version()}: use the same versions of both on every machine"
        ) from None
    if isinstance(errors[0], ConnectionError) and address == AUTO:
        raise UsageError(
            "no Ray cluster runs on this machine: start one with `ray start --head`, or give --ray HOST:PORT"
        ) from None
    raise UsageError(
        f"the Ray cluster at {address} cannot be joined ({first_line(errors[0])}): run the command on a machine where "
        f"`ray start` has joined it"
    ) from None
