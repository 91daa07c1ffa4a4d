"""`--ray [ADDRESS]`: paths are sampled on the nodes of a Ray cluster."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from sureenough.cli.option_groups import rare_option
from sureenough.errors import UsageError
from sureenough.redact import printable_command

if TYPE_CHECKING:
    from sureenough.drivers.record import Executor
    from sureenough.engines.base import Engine

FLAG: Final = "--ray"
RayAddress = Annotated[
    str | None,
    rare_option(
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


def join(address: str | None, call: typer.Context, *, dry_run: bool = False) -> Any:
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
    from sureenough.ray.cluster import connected

    return call.with_resource(connected(address))


def on_cluster(cluster: Any, make_engine: Callable[[], Engine]) -> Executor:
    """What samples on every node, from an engine that is made there."""
    from sureenough.ray.jobs import RayJobs

    return partial(RayJobs, cluster, make_engine)
