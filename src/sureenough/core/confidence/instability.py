"""Structural instability R of a window, from four sums instead of an eigendecomposition.

With a = sum (conf-mean)^2, b = sum (conf-mean) v, c = sum v^2 the 2x2 covariance has its eigenvalues at
(a + c ± h)/2, h = hypot(a-c, 2b), and the standard deviation cancels. R splits into a part that depends on
the shape of the window alone and a penalty that eta multiplies:

    R = isotropy + eta * penalty,   isotropy = 1 - h/(a+c),   penalty = (1 + (a-c)/h)/2 if confidence fell, else 0.

The scalar and the array version perform the same IEEE operations in the same order, so that streaming and array
replays take the same decisions to the last bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from sureenough.core.confidence.columns import (
    ILL_CONDITIONED,
    SUFFIX_COLUMNS,
    SUM_D,
    SUM_DD,
    SUM_DV,
    SUM_PEAK,
    SUM_VV,
)

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


def instability_from_sums(a: float, b: float, c: float, rise: float) -> tuple[float, float]:
    """(isotropy, penalty) of a window with these centred sums."""
    if a + c <= 0.0:
        return 0.0, 0.0
    difference = a - c
    h = sqrt(difference * difference + 4.0 * b * b)
    isotropy = 1.0 - h / (a + c)
    penalty = (1.0 + difference / h) / 2.0 if rise < 0.0 and h > 0.0 else 0.0
    return isotropy, penalty


def instability_of_window(window: Sequence[float] | Floats, before: float | None) -> tuple[float, float]:
    """(isotropy, penalty) by two passes over the window: slower, for windows whose sums lost too many digits."""
    conf = np.asarray(window, dtype=np.float64)
    first = conf[0] if before is None else before
    if conf.min() == conf.max():
        return 0.0, 0.0
    d = conf - conf.mean()
    v = np.diff(conf, prepend=first)
    return instability_from_sums(float(d @ d), float(d @ v), float(v @ v), float(conf[-1] - first))


def instability_from_arrays(
    n: Floats, d: Floats, dd: Floats, dv: Floats, vv: Floats, rise: Floats
) -> tuple[Floats, Floats, Bools]:
    """(isotropy, penalty) of many windows, and a mask of those that need `instability_of_window`."""
    a = dd - d * d / n
    b = dv - d * rise / n
    ill_conditioned = (a <= ILL_CONDITIONED * dd) & (dd > 0.0) & (n > 1.0)
    difference = a - vv
    h = np.sqrt(difference * difference + 4.0 * b * b)
    total = a + vv
    with np.errstate(divide="ignore", invalid="ignore"):
        isotropy = 1.0 - h / total
        penalty = (1.0 + difference / h) / 2.0
    flat = (dd == 0.0) | (total <= 0.0) | (n < 2.0)
    isotropy[flat] = 0.0
    penalty[flat | (rise >= 0.0) | (h == 0.0)] = 0.0
    return isotropy, penalty, ill_conditioned


def suffix_sums(conf: Floats, peak: Floats, before: float) -> Floats:
    """The sums (rows SUM_D to SUM_PEAK) of a full block from each position to its end, and a last column of zeros.

    They are shifted by the block's last token, as is the block that follows it.
    """
    backward = np.empty((SUFFIX_COLUMNS, len(conf) + 1))  # zeros first, then the block from its last token on
    backward[:, 0] = 0.0
    values = backward[:, 1:]
    d, v = (conf - conf[-1])[::-1], np.empty(len(conf))
    v[:-1], v[-1] = conf[:0:-1] - conf[-2::-1], conf[0] - before
    values[SUM_D], values[SUM_DD], values[SUM_DV], values[SUM_VV] = d, d * d, d * v, v * v
    values[SUM_PEAK] = (peak - peak[-1])[::-1]
    return np.cumsum(backward, axis=1)[:, ::-1]
