"""An upstream, and a server of ours before it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.engines.misbehaving import Manner
from tests.server.openai_client import closed
from tests.server.upstream import Upstream, an_upstream, before

__all__ = ["closed", "served", "upstream"]


@pytest.fixture(scope="module")
def upstream() -> Iterator[Upstream]:
    """Well-behaved and fast: three of four paths say 7."""
    with an_upstream(Manner()) as found:
        yield found


@pytest.fixture(scope="module")
def served(upstream: Upstream) -> Iterator[str]:
    """The address of a server of ours."""
    with before(upstream, window=4) as (url, _):
        yield url
