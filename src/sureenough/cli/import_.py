"""`sureenough import`: pools of paths that other programs have sampled."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from sureenough.cli.options import Kind
from sureenough.cli.terminal import echo, plural
from sureenough.datasets.files import columns_of
from sureenough.importers import COLUMNS, import_pools, is_log
from sureenough.pools import Pool


def command(
    *,
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE", help="Logs of Inspect or lm-evaluation-harness; JSON lines or CSV with a row per path."
        ),
    ],
    output: Annotated[
        Path, typer.Option("-o", "--output", help="The pool to write, ending in .parquet; or a folder for several.")
    ],
    columns: Annotated[
        str | None, typer.Option("--map", help="Columns of rows, such as question=id,text=completion.")
    ] = None,
    kind: Kind = "math",
) -> None:
    """Make pools of paths that other programs have sampled, one per file and model."""
    pools = import_pools(files, output, kind=kind, columns=columns_of(columns, COLUMNS))
    for pool in pools:
        echo(f"{pool.name}: {plural(len(pool.starts()), 'question')}, {plural(pool.rows, 'path')}.")
    print_notes(pools)


def with_imported(call: typer.Context, files: Sequence[Path] | None, kind: str | None) -> list[Path] | None:
    """The pools among these files, and the pools of those that are logs, which are removed when the command ends."""
    pools: list[Path] = []
    for number, file in enumerate(files or ()):
        if not is_log(file):
            pools.append(file)
            continue
        folder = Path(call.with_resource(TemporaryDirectory())) / str(number)
        imported = import_pools([file], folder, kind=kind or "math")
        print_notes(imported)
        pools += [pool.file for pool in imported]
    return None if files is None else pools


def print_notes(pools: Sequence[Pool]) -> None:
    """What the logs lack, each said once."""
    notes: dict[str, list[str]] = {}
    for pool in pools:
        for note in pool.info.more["imported"]["notes"]:
            notes.setdefault(note, []).append(Path(pool.name).stem)
    for note, names in notes.items():
        where = "" if len(names) == len(pools) else f" ({names[0]}{f' and {len(names) - 1} more' if names[1:] else ''})"
        echo(f"{note}{where}", err=True)
