"""Every strategy by name. To add one: a file here, and a line in `STRATEGIES`."""

from __future__ import annotations

from typing import Final

from sureenough.core.strategy import Strategy
from sureenough.strategies.ablations import NO_DEPTH, NO_TREND, NO_WIDTH, UNWEIGHTED
from sureenough.strategies.ac import AC
from sureenough.strategies.ddc import DDC
from sureenough.strategies.deepconf import HIGH, LOW
from sureenough.strategies.esc import ESC
from sureenough.strategies.sc import SC
from sureenough.strategies.sure import SURE

STRATEGIES: Final[dict[str, Strategy]] = {
    "sc": SC,
    "ac": AC,
    "esc": ESC,
    "deepconf-low": LOW,
    "deepconf-high": HIGH,
    "ddc": DDC,
    "ddc-unweighted": UNWEIGHTED,
    "ddc-no-width": NO_WIDTH,
    "ddc-no-trend": NO_TREND,
    "ddc-no-depth": NO_DEPTH,
    "sure": SURE,
}
