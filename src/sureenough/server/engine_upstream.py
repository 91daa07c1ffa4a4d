"""An engine of another package as the upstream: it samples paths, and cannot answer a request without a vote.

How its tokens are sampled is the engine's own affair, so requests cannot change that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from sureenough.engines.base import Engine
from sureenough.engines.load_balancer import ServerLoad
from sureenough.server.errors import bad_request, unknown_model
from sureenough.server.model_names import check_strategy, split_model_name
from sureenough.server.request_schema import SAMPLING_FIELDS

_NO_SAMPLING: Final = frozenset(
    "response_format user metadata store service_tier safety_identifier prompt_cache_key".split()
)
OWN_FIELDS: Final = (SAMPLING_FIELDS - _NO_SAMPLING) | {"temperature", "top_p", "max_tokens", "max_completion_tokens"}
"""Fields of a request that say how tokens are sampled."""


class EngineUpstream:
    """The engine, open for as long as the server runs."""

    def __init__(self, engine: Engine, name: str, template: str) -> None:
        self._engine, self.name, self.template = engine, name, template

    @property
    def offered(self) -> tuple[str, ...]:
        return (self.name,)

    def engine(self, model: str, sampling: dict[str, Any]) -> Engine:
        """The engine for one request."""
        return self._engine

    def notes(self, model: str, question: str) -> tuple[str, ...]:
        """Nothing is known of the engine's model."""
        return ()

    def redact(self, text: str) -> str:
        """An engine in this process has no address or key that we know of."""
        return text

    def server_loads(self) -> Sequence[ServerLoad]:
        """An engine has no servers that we know of."""
        return ()

    async def models(self) -> list[str]:
        return [self.name]

    async def problem(self) -> str | None:
        return None

    async def ready(self) -> bool:
        return True

    async def check_model(self, model: str) -> None:
        """Refuse a model that is not the engine, and an unknown strategy."""
        base, at, spec = model.rpartition("@")
        if at and base == self.name:
            check_strategy(spec)
        if model != self.name:
            raise unknown_model(model, f"; this server offers {self.name}")

    def check_request(self, body: dict[str, Any], strategy: str) -> None:
        """Refuse what only a server could do: a reply without a vote, and sampling by the request."""
        if split_model_name(body["model"]).strategy is None and body.get("sureenough") is None:
            raise bad_request(
                f"{self.name} is an engine without a server of its own: choose a strategy, as in "
                f"{self.name}@{strategy}.",
                "model",
            )
        given = next((name for name in sorted(OWN_FIELDS & body.keys()) if body[name] is not None), None)
        if given is not None:
            raise bad_request(
                f"{given} cannot be set: the engine {self.name} decides how its tokens are sampled.",
                given,
                "unsupported_parameter",
            )
