"""What runs on a node of a Ray cluster: an engine that stays open, and calls that use it.

Only actors of this class are sent to nodes. The engine's settings, which may hold passwords, reach them as an argument
of a method: such arguments go from process to process and are not stored or shown by Ray, unlike the arguments of
constructors and the variables of a runtime environment.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any, Final

from sureenough.engines.base import Engine, opened
from sureenough.engines.openai.errors import KEY_VARIABLES
from sureenough.errors import EngineRejected, SureEnoughError, TraceError, UsageError
from sureenough.redact import redact

CARRIED: Final = (*KEY_VARIABLES, "HF_TOKEN")
"""Variables of the command's environment that runners receive; nodes have their own for all else."""


def carried_variables() -> dict[str, str]:
    return {name: os.environ[name] for name in CARRIED if os.environ.get(name)}


class EngineRecipe:
    """How a runner makes its engine, and the keys that it needs. It does not show them."""

    def __init__(self, make: Callable[[], Engine], parallel: int) -> None:
        self.make, self.parallel = make, parallel
        self.variables = carried_variables()

    def __repr__(self) -> str:
        return "EngineRecipe(…)"


class Failed:
    """An error of a call. It is returned, since Ray logs what is raised."""

    def __init__(self, error: SureEnoughError) -> None:
        self.error = error


class Runner:
    """One engine of a node, for all calls there."""

    def __init__(self, node: str) -> None:
        self._node = node
        self._engine: Engine | None = None
        self._stack = AsyncExitStack()
        self._secrets: tuple[str, ...] = ()

    async def ping(self) -> None:
        """Respond once the runner is there."""

    async def open(self, recipe: EngineRecipe) -> Failed | None:
        """Make the engine and open it."""
        try:
            os.environ.update(recipe.variables)
            self._secrets = tuple(recipe.variables.values())
            self._engine = await self._stack.enter_async_context(opened(recipe.make(), recipe.parallel))
        except Exception as error:  # whatever the code of another package raises
            return self._failed(error)
        return None

    async def call(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        """What the function returns, or a `Failed`."""
        try:
            return await function(self._engine, *arguments)
        except Exception as error:  # of a plug-in, or a bug: it ends the run, with a message
            return self._failed(error)

    async def close(self) -> None:
        await self._stack.aclose()

    def _failed(self, error: Exception) -> Failed:
        return failed(error, self._node, self._secrets)


def failed(error: Exception, node: str, secrets: tuple[str, ...] = ()) -> Failed:
    """The error without frames, and with the node's address if the fix is to be made there."""
    where = f"on node {node}"
    full = _full_disk(error)
    if full is not None:
        text = redact(str(full), *secrets)[:300]
        return Failed(TraceError(f"{where} the disk is full ({text}): make room there and give the same command again"))
    text = redact(str(error), *secrets)[:300]
    if isinstance(error, UsageError | TraceError):
        return Failed(type(error)(f"{where}: {text}"))
    if isinstance(error, SureEnoughError):
        error.__context__ = error.__cause__ = None
        return Failed(error.with_traceback(None))
    return Failed(EngineRejected(f"{where}: {type(error).__name__}: {text}"))


def _full_disk(error: BaseException | None) -> OSError | None:
    """The error of a full disk, if it is this one or one that it was made from."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            return error
        error = error.__context__
    return None
