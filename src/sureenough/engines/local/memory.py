"""How much memory is available on this machine."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

MEMINFO: Final = Path("/proc/meminfo")
CGROUP: Final = Path("/sys/fs/cgroup")


def available(meminfo: Path = MEMINFO, cgroup: Path = CGROUP) -> int | None:
    """Bytes available without swapping; the installed memory if only that is known, else None."""
    known = [size for size in (_linux(meminfo), _container(cgroup)) if size is not None]
    return min(known) if known else _installed()


def _linux(file: Path) -> int | None:
    try:
        match = re.search(r"^MemAvailable:\s+(\d+) kB", file.read_text("ascii"), re.MULTILINE)
    except OSError:
        return None
    return int(match[1]) * 1024 if match else None


def _container(folder: Path) -> int | None:
    """What a container's limit leaves. Cached pages of files can be dropped, so they count as available."""
    try:
        limit = (folder / "memory.max").read_text().strip()
        used = int((folder / "memory.current").read_text())
        files = re.search(r"^inactive_file (\d+)", (folder / "memory.stat").read_text(), re.MULTILINE)
    except (OSError, ValueError):
        return None
    return None if limit == "max" else max(0, int(limit) - used + int(files[1] if files else 0))


def _installed() -> int | None:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None


def shown(size: float) -> str:
    """Bytes as text, such as 2.5 GB."""
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.0f} MB"
