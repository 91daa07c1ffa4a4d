"""A folder of parts that appears whole in place of an older one. Nothing of others is renamed or removed."""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from pathlib import Path
from typing import Final

from sureenough.errors import TraceError
from sureenough.pools.durable import sync_folder
from sureenough.pools.parts import is_part

MARKER: Final = "made-by-sureenough-record"
PART: Final = "part-{:05d}.parquet"
_UNFINISHED: Final = re.compile(r"\.?part-\d{5,}\.parquet(\.part|\.sureenough-part)?")


class FolderReplacement:
    """Writes the new parts in a hidden folder beside the output; the older ones move there before they are removed.

    The hidden folder has a marker: one without it belongs to somebody else, and is refused.
    """

    def __init__(self, output: Path) -> None:
        self.output = output
        self._hidden = output.with_name(f".{output.name}.sureenough")
        self._new, self._older = self._hidden / "new", self._hidden / "older"

    def recover(self) -> None:
        """Undo or finish the replacement of a process that was killed."""
        if not os.path.lexists(self._hidden):
            return
        if self._hidden.is_symlink() or not self._hidden.is_dir() or not self._is_ours():
            raise TraceError(f"{self._hidden} was not made by `sureenough record`; move it, or name another output")
        if self._older.exists():
            if not os.path.lexists(self.output):
                os.replace(self._older, self.output)
            elif self._new.exists():  # the killed process had no time to rename it, so the output came from elsewhere
                raise TraceError(f"{self._older} holds what was at {self.output} before; move one of the two elsewhere")
            else:
                _remove(self._older, set(filter(is_part, os.listdir(self._older))))
        self._clear()

    def begin(self) -> Path:
        """An empty folder for the new parts."""
        self.recover()
        self._hidden.mkdir()
        (self._hidden / MARKER).touch()
        self._new.mkdir()
        return self._new

    def publish(self, replaced: Collection[str]) -> None:
        """Give the new folder its name. The output is missing, or holds the files `replaced` and no others."""
        sync_folder(self._new)
        if os.path.lexists(self.output):
            for name in os.listdir(self.output):
                if name not in replaced:
                    raise _stranger(self.output / name)
            os.replace(self.output, self._older)
            sync_folder(self._hidden)
        os.replace(self._new, self.output)
        sync_folder(self.output.parent)
        if self._older.exists():
            _remove(self._older, replaced)
        self._clear()

    def _is_ours(self) -> bool:
        """It has the marker; it is empty if a process was killed before making it."""
        return (self._hidden / MARKER).is_file() or not os.listdir(self._hidden)

    def _clear(self) -> None:
        if self._new.exists():
            _remove(self._new, set(filter(_UNFINISHED.fullmatch, os.listdir(self._new))))
        _remove(self._hidden, {MARKER})


def _remove(folder: Path, names: Collection[str]) -> None:
    """Remove a folder that holds these files; one that holds others stays as it is."""
    for name in os.listdir(folder):
        if name not in names:
            raise _stranger(folder / name)
    for name in names:
        (folder / name).unlink(missing_ok=True)
    folder.rmdir()


def _stranger(file: Path) -> TraceError:
    return TraceError(f"{file} is not a part of the pool; move it elsewhere, and give the same command again")
