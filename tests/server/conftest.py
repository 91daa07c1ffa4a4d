"""An upstream, and a server of ours before it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sureenough.server import ServerSettings
from tests.engines.misbehaving import Manner
from tests.server.openai_client import closed
from tests.server.serving import ours
from tests.server.upstream import KEY, Upstream, an_upstream

__all__ = ["closed", "served", "upstream"]


@pytest.fixture(scope="module")
def upstream() -> Iterator[Upstream]:
    """Well-behaved and fast: three of four paths say 7."""
    with an_upstream(Manner()) as (found, _):
        yield found


@pytest.fixture(scope="module")
def served(upstream: Upstream) -> Iterator[str]:
    """The address of a server of ours."""
    with ours(ServerSettings(upstream=upstream.url, upstream_key=KEY, window=4)) as (url, _):
        yield url
