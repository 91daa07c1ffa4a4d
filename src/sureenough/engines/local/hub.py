"""`hf:OWNER/NAME[:FILE]`: a GGUF file of a Hugging Face repository, downloaded once with a progress bar."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from sureenough.engines.local.gguf import parts
from sureenough.errors import EngineUnavailable, UsageError

PREFIX: Final = "hf:"
_FORM: Final = re.compile(r"^([\w.-]+/[\w.-]+)(?::(.+))?$")
INSTEAD: Final = "without a network, give a GGUF file (--model FILE.gguf), or no --model for the built-in model"
T = TypeVar("T")


class HubFile(NamedTuple):
    """A repository, and the file in it where one was named."""

    repository: str
    file: str | None


def parse_hub_name(text: str) -> HubFile:
    """Read `hf:OWNER/NAME[:FILE]`."""
    found = _FORM.match(text.removeprefix(PREFIX))
    if found is None:
        raise UsageError(f"{text!r} names no model on the hub; it looks like hf:OWNER/NAME or hf:OWNER/NAME:FILE.gguf")
    return HubFile(found[1], found[2])


def fetch(text: str) -> Path:
    """The file on this machine, downloaded where it is not here yet."""
    try:
        import huggingface_hub as hub
    except ImportError:
        raise UsageError(
            "models of the hub need the package huggingface_hub: pip install 'sureenough[local]'; or give a GGUF file"
        ) from None
    where = parse_hub_name(text)
    found = None if where.file is None else [_here(hub, where.repository, part) for part in parts(Path(where.file))]
    if found and None not in found:
        return Path(str(found[0]))
    file = chosen(_asked(where, lambda: _files(hub.HfApi(), where.repository)), where)
    for part in reversed(parts(Path(file))):
        latest = _asked(where, partial(hub.hf_hub_download, where.repository, part.as_posix()))
    return Path(latest)


def _here(hub: Any, repository: str, part: Path) -> str | None:
    """Where a file was kept when it was downloaded before."""
    kept = hub.try_to_load_from_cache(repository, part.as_posix())
    return kept if isinstance(kept, str) else None


def _files(api: Any, repository: str) -> list[str]:
    return [str(one.rfilename) for one in api.model_info(repository, timeout=10).siblings or []]


def chosen(files: list[str], where: HubFile) -> str:
    """The file that is meant: the only one, or the only one with these letters in its name."""
    models = [name for name in sorted(files) if name.endswith(".gguf") and "mmproj" not in name.lower()]
    models = [name for name in models if not re.search(r"-(?!0*1-of-)\d+-of-\d+\.", name)]  # later parts of one
    if not models:
        raise UsageError(f"{where.repository} has no GGUF files; look for a repository that has, often named …-GGUF")
    fitting = [name for name in models if where.file is None or where.file.lower() in name.lower()]
    fitting = [where.file] if where.file in models else fitting
    if len(fitting) == 1:
        return fitting[0]
    many = "no file" if not fitting else f"{len(fitting)} files"
    like = f" like {where.file!r}" if where.file else ""
    raise UsageError(
        f"{where.repository} has {many}{like}; choose one, as in hf:{where.repository}:{(fitting or models)[0]}. "
        f"It has: {', '.join(models)}"
    )


def _asked(where: HubFile, work: Callable[[], T]) -> T:
    """What the hub answers, or an error in our words."""
    from huggingface_hub import errors

    try:
        return work()
    except (errors.RepositoryNotFoundError, errors.GatedRepoError):
        raise UsageError(
            f"the hub has no {where.repository}, or shows it only to those with a token (HF_TOKEN)"
        ) from None
    except errors.RemoteEntryNotFoundError:
        raise UsageError(
            f"{where.repository} has no file {where.file}; hf:{where.repository} alone lists its files"
        ) from None
    except Exception as error:  # of whatever HTTP library the hub's own client uses
        raise _unreachable(where, error) from None


def _unreachable(where: HubFile, error: Exception) -> EngineUnavailable:
    why = " ".join(str(error).split())[:120] or type(error).__name__
    return EngineUnavailable(f"the hub cannot be reached for {where.repository} ({why}); {INSTEAD}")
