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
INSTEAD: Final = "without a network, give the path of a GGUF file, or no model for the built-in one"
T = TypeVar("T")


class HubFile(NamedTuple):
    """A repository, and the file in it if one is named."""

    repository: str
    file: str | None


def parse_hub_name(text: str) -> HubFile:
    match = _FORM.match(text.removeprefix(PREFIX))
    if match is None:
        raise UsageError(
            f"{text!r} is not the name of a model on the hub; it looks like hf:OWNER/NAME or hf:OWNER/NAME:FILE.gguf"
        )
    return HubFile(match[1], match[2])


def fetch(text: str) -> Path:
    """The file on this machine, downloaded if it is not in the cache."""
    try:
        import huggingface_hub as hub
    except ImportError:
        raise UsageError(
            "models of the hub need the package huggingface_hub: pip install 'sureenough[local]'; or give a GGUF file"
        ) from None
    name = parse_hub_name(text)
    cached = None if name.file is None else [_cached(hub, name.repository, part) for part in parts(Path(name.file))]
    if cached and None not in cached:
        return Path(str(cached[0]))
    info = _call_hub(name, lambda: hub.HfApi().model_info(name.repository, timeout=10))
    file = choose_file([str(sibling.rfilename) for sibling in info.siblings or []], name)
    for part in reversed(parts(Path(file))):
        downloaded = _call_hub(name, partial(hub.hf_hub_download, name.repository, part.as_posix()))
    return Path(downloaded)


def _cached(hub: Any, repository: str, part: Path) -> str | None:
    """The path of a file that was downloaded before."""
    path = hub.try_to_load_from_cache(repository, part.as_posix())
    return path if isinstance(path, str) else None


def choose_file(files: list[str], name: HubFile) -> str:
    """The file to use: the only one, or the only one with this text in its name."""
    models = [file for file in sorted(files) if file.endswith(".gguf") and "mmproj" not in file.lower()]
    models = [file for file in models if not re.search(r"-(?!0*1-of-)\d+-of-\d+\.", file)]  # without later parts
    if not models:
        raise UsageError(f"{name.repository} has no GGUF files; look for a repository that has, often named …-GGUF")
    matching = [file for file in models if name.file is None or name.file.lower() in file.lower()]
    matching = [name.file] if name.file in models else matching
    if len(matching) == 1:
        return matching[0]
    count = "no file" if not matching else f"{len(matching)} files"
    like = f" like {name.file!r}" if name.file else ""
    raise UsageError(
        f"{name.repository} has {count}{like}; choose one, as in hf:{name.repository}:{(matching or models)[0]}. "
        f"It has: {', '.join(models)}"
    )


def _call_hub(name: HubFile, call: Callable[[], T]) -> T:
    """The result of a call to the hub, or an error of our own."""
    from huggingface_hub import errors

    try:
        return call()
    except (errors.RepositoryNotFoundError, errors.GatedRepoError):
        raise UsageError(f"the hub has no {name.repository}, or it needs a token (HF_TOKEN)") from None
    except errors.RemoteEntryNotFoundError:
        raise UsageError(
            f"{name.repository} has no file {name.file}; hf:{name.repository} alone lists its files"
        ) from None
    except Exception as error:  # the hub's client does not say which HTTP library it uses
        reason = " ".join(str(error).split())[:120] or type(error).__name__
        raise EngineUnavailable(f"the hub cannot be reached for {name.repository} ({reason}); {INSTEAD}") from None
