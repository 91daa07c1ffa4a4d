"""Early-stopping self-consistency: stop when a whole window of paths agrees (Li et al., 2024)."""

from __future__ import annotations

from typing import Final

from sureenough.core.stop_rules import Unanimous
from sureenough.core.strategy import Strategy

ESC: Final = Strategy("esc", stop=Unanimous(), says="early-stopping SC: stop when a whole window of paths agrees")
