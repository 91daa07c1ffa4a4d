"""The regularised incomplete beta function, loaded at its first call: `scipy.special` takes a fifth of a second."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any


def betainc(a: Any, b: Any, x: Any) -> Any:
    """I_x(a, b), of numbers or arrays."""
    return _function()(a, b, x)


@cache
def _function() -> Callable[[Any, Any, Any], Any]:
    from scipy.special import betainc as found

    function: Callable[[Any, Any, Any], Any] = found
    return function
