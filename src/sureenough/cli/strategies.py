"""`sureenough strategies`: every strategy with its options and their defaults, and what other packages add."""

from __future__ import annotations

from sureenough.cli.terminal import echo
from sureenough.errors import UsageError
from sureenough.plugins import GROUPS, announced, report
from sureenough.spec import REGISTRY, options
from sureenough.strategies import SEARCHES


def command() -> None:
    """List the strategies, their options and defaults; then installed plug-ins, and why one cannot be used."""
    for name in REGISTRY.names():
        try:
            strategy = REGISTRY.find(name).thing
        except UsageError as error:  # a plug-in that fails to load
            echo(f"{name}: {error}")
            continue
        known = options(strategy)
        echo(f"{name}: {strategy.summary}" + ("" if known else " (no options)"))
        for option in known.values():
            default = option.read(strategy)
            echo(f"  {option.name}={int(default) if isinstance(default, bool) else default}  {option.help}")
    methods = " or ".join(f"{method}+" for method in SEARCHES)
    echo(f"{methods} before any strategy without pruning searches for its paths, such as phi+sure.")
    if any(announced(group) for group in GROUPS):
        from sureenough.answers.kinds import REGISTRY as JUDGES
        from sureenough.datasets.load import REGISTRY as DATASETS
        from sureenough.engines.base import REGISTRY as ENGINES

        echo("\nPlug-ins:")
        for entry in report({registry.group: registry for registry in (REGISTRY, JUDGES, ENGINES, DATASETS)}):
            echo(f"{entry.group}: {entry.name} ({entry.package}) {entry.error or 'ok'}")
