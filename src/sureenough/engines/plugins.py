"""Engines of other packages, by entry point or as `module:attribute`."""

from __future__ import annotations

from typing import Any, Final

from sureenough.engines.base import Engine, as_engine
from sureenough.errors import UsageError
from sureenough.plugins import Registry


def _accepted(thing: Any) -> Engine:
    """An engine, or what makes one when it is called: a class, or a function without arguments."""
    if isinstance(thing, type) or not hasattr(thing, "stream"):
        if not callable(thing):
            raise UsageError(f"it is {type(thing).__name__}, which has no method stream")
        try:
            thing = thing()
        except Exception as error:  # whatever the code of another package raises
            raise UsageError(f"making the engine failed: {type(error).__name__}: {error}"[:300]) from None
    if not hasattr(thing, "stream"):
        raise UsageError(f"it makes {type(thing).__name__}, which has no method stream")
    return as_engine(thing)


REGISTRY: Final[Registry[Engine]] = Registry("engine", "engines", {}, _accepted)


def named_engine(text: str) -> Engine:
    """The engine of an installed package by its name, or `module:attribute`."""
    named = REGISTRY.find(text)
    if named.options is not None:
        raise UsageError(f"{text!r}: an engine takes no options here; set them where {named.name} is defined")
    return named.thing
