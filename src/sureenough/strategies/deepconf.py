"""DeepConf online: paths must stay above a percentile of the warm-up's confidence (Fu et al., 2025).

Low keeps the best tenth of the warm-up and what comes up to it, high keeps nine tenths.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from sureenough.core.pruning import Keep
from sureenough.core.stop_rules import Share
from sureenough.core.strategy import Strategy
from sureenough.core.weights import ByLowest

LOW: Final = Strategy(
    "deepconf-low",
    warmup=16,
    calibrate=Keep(10.0),
    stop=Share(),
    weigh=ByLowest(),
    says="DeepConf, strict: paths must come up to the best tenth of the warm-up",
)
HIGH: Final = replace(
    LOW, name="deepconf-high", calibrate=Keep(90.0), says="DeepConf, lenient: only the worst tenth is stopped"
)
