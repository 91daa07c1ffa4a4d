"""Names that other packages add: by entry points, or as `module:attribute` wherever the operator names a thing.

Entry points are listed without importing anything, and only when a name is not built in. A plug-in that fails to load
is an error of that name alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeVar

from sureenough.errors import UsageError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

T = TypeVar("T")
GROUPS: Final = ("strategies", "judges", "engines", "datasets")
LONGEST_SPEC: Final = 500
"""Characters of a spec string, which error messages quote."""
_DOTTED: Final = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*")


class Named(NamedTuple, Generic[T]):
    """A thing, the name that led to it, and the options that followed the name."""

    name: str
    thing: T
    options: str | None


@dataclass(frozen=True, slots=True)
class Registry(Generic[T]):
    """Things of one sort by name: built in, of an installed package, or `module:attribute`."""

    noun: str  # for messages
    group: str  # one of GROUPS
    builtin: Mapping[str, T]
    accept: Callable[[object], T]  # what a plug-in provides as such a thing; raises UsageError

    def names(self) -> list[str]:
        """Every registered name, without loading any plug-in."""
        return list(dict.fromkeys([*self.builtin, *announced(self.group)]))

    def find(self, text: str, *, registered_only: bool = False) -> Named[T]:
        """What `name` or `name:options` refers to; an unknown name is refused with the known ones.

        Args:
            text: the spec.
            registered_only: refuse `module:attribute`, which imports code; for names that clients or files choose.
        """
        if len(text) > LONGEST_SPEC:
            raise UsageError(f"the {self.noun} has {len(text):,} characters; a spec has at most {LONGEST_SPEC}")
        name, colon, rest = text.strip().partition(":")
        if name in self.builtin:
            return Named(name, self.builtin[name], rest if colon else None)
        if name in announced(self.group):
            return Named(name, self.accept(load(self.group, name)), rest if colon else None)
        attribute, colon, options = rest.partition(":")
        dotted = _DOTTED.fullmatch(name) and _DOTTED.fullmatch(attribute)
        if dotted and not registered_only:
            try:
                thing = self.accept(_imported(name, attribute))
            except UsageError as error:
                raise UsageError(f"{self._unknown(name)}; {name}:{attribute} cannot be used: {error}") from None
            return Named(f"{name}:{attribute}", thing, options if colon else None)
        reason = f"; {name}:{attribute} can only be named where a command or server is started" if dotted else ""
        raise UsageError(self._unknown(name) + reason)

    def _unknown(self, name: str) -> str:
        names = self.names()
        return f"unknown {self.noun} {name!r}{hint(name, names)}; known: {', '.join(names) or 'none'}"


def hint(word: str, known: list[str]) -> str:
    """A question in parentheses if a known word is close."""
    close = get_close_matches(word, known, n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""


@cache
def announced(group: str) -> dict[str, EntryPoint]:
    """The entry points of a group by name; the first package on the path wins."""
    from importlib.metadata import entry_points

    points = list(entry_points(group=f"sureenough.{group}"))
    return {point.name: point for point in reversed(points)}


@cache
def load(group: str, name: str) -> Any:
    """What an entry point refers to."""
    point = announced(group)[name]
    try:
        return point.load()
    except (Exception, SystemExit) as error:  # whatever a plug-in does when it is imported
        raise UsageError(f"the plug-in {name} of {package(point)} failed to load: {described(error)}") from None


def package(point: EntryPoint) -> str:
    """The package that announces an entry point, with its version."""
    return f"{point.dist.name} {point.dist.version}" if point.dist is not None else "an unknown package"


def _imported(module: str, attribute: str) -> object:
    try:
        thing: object = import_module(module)
        for name in attribute.split("."):
            thing = getattr(thing, name)
        return thing
    except (Exception, SystemExit) as error:  # whatever a module does when it is imported
        missing = isinstance(error, ModuleNotFoundError) and error.name == module.partition(".")[0]
        here = "; a module of the current folder is found with PYTHONPATH=." if missing else ""
        raise UsageError(f"{described(error)}{here}") from None


def described(error: BaseException) -> str:
    """An error of code that is not ours."""
    return f"{type(error).__name__}: {error}"[:300]


class PluginReport(NamedTuple):
    """An entry point, and why it cannot be used, if it cannot."""

    group: str
    name: str
    package: str
    error: str | None


def report(registries: Mapping[str, Registry[Any]]) -> Iterator[PluginReport]:
    """Every entry point of ours that is installed, loaded to see whether it works."""
    for group, registry in registries.items():
        for name, point in announced(group).items():
            error = None
            try:
                if name in registry.builtin:
                    raise UsageError(f"the name is taken: {name} is a built-in {registry.noun}")
                registry.accept(load(group, name))
            except UsageError as refused:
                error = str(refused)
            yield PluginReport(group, name, package(point), error)
