"""The paper's ablations of DDC, each one part replaced."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from sureenough.core.pruning import TwoTiers, no_gate
from sureenough.core.stop_rules import Posterior, never
from sureenough.strategies.ddc import DDC

UNWEIGHTED: Final = replace(
    DDC,
    name="ddc-unweighted",
    stop=Posterior(weighted=False),
    says="ddc whose stop test counts each path as 1; the final vote keeps its weights",
)
NO_WIDTH: Final = replace(DDC, name="ddc-no-width", stop=never, says="ddc without its stop test")
NO_TREND: Final = replace(DDC, name="ddc-no-trend", calibrate=TwoTiers(), says="ddc without the trend tier")
NO_DEPTH: Final = replace(DDC, name="ddc-no-depth", calibrate=no_gate, says="ddc without pruning")
