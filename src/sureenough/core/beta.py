"""The Beta distribution, by which votes are tested."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any


def exceeds_share(alpha: float, beta: float, share: float) -> float:
    """P(p > share) for p ~ Beta(alpha, beta), as a survival function: exact even if it is tiny."""
    return float(betainc(beta, alpha, 1.0 - share))


def betainc(a: Any, b: Any, x: Any) -> Any:
    """The regularised incomplete beta function I_x(a, b), of numbers or arrays."""
    return _scipy_betainc()(a, b, x)


@cache
def _scipy_betainc() -> Callable[[Any, Any, Any], Any]:
    from scipy.special import betainc as function  # importing it takes a fifth of a second: not before it is needed

    return function  # type: ignore[no-any-return]
