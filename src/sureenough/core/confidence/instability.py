"""Structural instability R of a window, from four sums instead of an eigendecomposition.

With a = sum (conf-mean)^2, b = sum (conf-mean) v, c = sum v^2 the 2x2 covariance has its eigenvalues at
(a + c ± h)/2, h = hypot(a-c, 2b), and the standard deviation cancels. R splits into a part that depends on
the shape of the window and a penalty that eta multiplies:

    R = noise + eta * fall,   noise = 1 - h/(a+c),   fall = (1 + (a-c)/h)/2 where confidence fell, else 0.

The scalar and the array version perform the same IEEE operations in the same order, so that both lanes of a
replay take the same decisions to the last bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

ILL_CONDITIONED: Final = 1e-6
"""Where the spread is below this share of the shifted squares, subtraction ate too many digits: sum anew."""


def instability_from_sums(a: float, b: float, c: float, rise: float) -> tuple[float, float]:
    """(noise, fall) of a window with these centred sums."""
    if a + c <= 0.0:
        return 0.0, 0.0
    skew = a - c
    h = sqrt(skew * skew + 4.0 * b * b)
    noise = 1.0 - h / (a + c)
    fall = (1.0 + skew / h) / 2.0 if rise < 0.0 and h > 0.0 else 0.0
    return noise, fall


def instability_of_window(window: Sequence[float] | Floats, before: float | None) -> tuple[float, float]:
    """(noise, fall) by two passes over the window itself: slower, and right where the sums are not."""
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
    """`shape` for many windows at once, and a mask of those that `direct` must do again."""
    a = dd - d * d / n
    b = dv - d * rise / n
    weak = (a <= ILL_CONDITIONED * dd) & (dd > 0.0) & (n > 1.0)
    skew = a - vv
    h = np.sqrt(skew * skew + 4.0 * b * b)
    total = a + vv
    with np.errstate(divide="ignore", invalid="ignore"):
        noise = 1.0 - h / total
        fall = (1.0 + skew / h) / 2.0
    flat = (dd == 0.0) | (total <= 0.0) | (n < 2.0)
    noise[flat] = 0.0
    fall[flat | (rise >= 0.0) | (h == 0.0)] = 0.0
    return noise, fall, weak
