"""Files from the Hugging Face hub, through its own client: its cache, its login, its offline switch."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from sureenough.datasets.dataset import Dataset, Hub
from sureenough.errors import UsageError


def fetch(dataset: Dataset) -> Path:
    """The dataset's file, from the cache or the hub; an error says how to give a file instead."""
    hub = dataset.hub
    assert hub is not None
    instead = (
        f"Or give a copy of your own, as JSON lines, CSV or Parquet: --dataset {dataset.name}=FILE "
        "(--map question=COLUMN,gold=COLUMN if its columns have other names)"
    )
    try:
        import huggingface_hub as client
        from huggingface_hub import errors
    except ImportError:
        raise UsageError(
            f"{dataset.name} is downloaded from the Hugging Face hub, and its client is not installed: "
            f"pip install 'sureenough[bench]'. {instead}"
        ) from None
    try:
        return _cached(hub, client, errors) or _downloaded(hub, client, errors)
    except errors.GatedRepoError:
        raise UsageError(
            f"{hub.id} is gated: accept its terms at https://huggingface.co/datasets/{hub.id}, then log in with "
            f"`hf auth login` or set HF_TOKEN. {instead}"
        ) from None
    except (errors.RepositoryNotFoundError, errors.RemoteEntryNotFoundError, errors.RevisionNotFoundError):
        raise UsageError(
            f"the hub has no {hub.file} in {hub.id} at {hub.revision[:12]}, or not for you. {instead}"
        ) from None
    except (URLError, errors.LocalEntryNotFoundError, errors.OfflineModeIsEnabled) as error:
        reason = f" ({error.reason})" if isinstance(error, URLError) else ""
        raise UsageError(
            f"{dataset.name} is on the Hugging Face hub, which could not be reached{reason}, and no copy is cached. "
            f"Go online and try again. {instead}"
        ) from None
    except Exception as error:  # the hub's client does not say which HTTP library it uses
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise UsageError(f"{hub.id} could not be downloaded from the hub: {reason[:200]}. {instead}") from None


def _location(hub: Hub) -> dict[str, str]:
    return {"repo_id": hub.id, "repo_type": "dataset", "filename": hub.file, "revision": hub.revision}


def _cached(hub: Hub, client: Any, errors: Any) -> Path | None:
    try:
        return Path(client.hf_hub_download(**_location(hub), local_files_only=True))
    except errors.LocalEntryNotFoundError:
        return None


def _downloaded(hub: Hub, client: Any, errors: Any) -> Path:
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE:
        raise errors.OfflineModeIsEnabled
    with suppress(HTTPError):  # any status shows that the hub can be reached; its client would retry six times
        urlopen(Request(constants.ENDPOINT, method="HEAD"), timeout=10.0).close()
    return Path(client.hf_hub_download(**_location(hub)))
