"""Self-consistency: the whole budget, then the majority (Wang et al., 2023)."""

from __future__ import annotations

from typing import Final

from sureenough.core.strategy import Strategy

SC: Final = Strategy("sc", says="self-consistency: the whole budget, then the majority")
