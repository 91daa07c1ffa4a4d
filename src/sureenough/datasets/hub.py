"""Files from the Hugging Face hub, through its own client: its cache, its login, its offline switch.

What is in the cache is taken from there: a benchmark does not change, and a second run needs no network.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx

from sureenough.datasets.dataset import Dataset, Hub
from sureenough.errors import UsageError


def fetch(dataset: Dataset) -> Path:
    """The dataset's file on this machine; says how to give one where the hub does not."""
    hub = dataset.hub
    assert hub is not None
    instead = (
        f"Or give a copy of your own, as JSON lines, CSV or Parquet: --dataset {dataset.name}=FILE "
        "(--map question=COLUMN,gold=COLUMN where its columns have other names)"
    )
    try:
        import huggingface_hub as client
        from huggingface_hub import errors as said
    except ImportError:
        raise UsageError(
            f"{dataset.name} is fetched from the Hugging Face hub, and its client is not installed: "
            f"pip install 'sureenough[bench]'. {instead}"
        ) from None
    try:
        return _cached(hub, said, client) or _downloaded(hub, said, client)
    except said.GatedRepoError:
        raise UsageError(
            f"{hub.id} is gated: accept its terms at https://huggingface.co/datasets/{hub.id}, then log in with "
            f"`hf auth login` or set HF_TOKEN. {instead}"
        ) from None
    except (said.RepositoryNotFoundError, said.RemoteEntryNotFoundError, said.RevisionNotFoundError):
        raise UsageError(f"the hub has no {hub.id} with {hub.file} any more, or not for you. {instead}") from None
    except (httpx.TransportError, said.LocalEntryNotFoundError, said.OfflineModeIsEnabled) as error:
        why = f" ({error})" if isinstance(error, httpx.TransportError) else ""
        raise UsageError(
            f"{dataset.name} is on the Hugging Face hub, which could not be reached{why}, and no copy is in its cache. "
            f"Go online and try again. {instead}"
        ) from None
    except (said.HfHubHTTPError, OSError) as error:
        why = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise UsageError(f"{hub.id} could not be fetched from the hub: {why[:200]}. {instead}") from None


def _files(hub: Hub) -> tuple[dict[str, Any], ...]:
    converted = {"filename": hub.converted, "revision": "refs/convert/parquet"}
    return tuple({"repo_id": hub.id, "repo_type": "dataset", **where} for where in ({"filename": hub.file}, converted))


def _cached(hub: Hub, errors: Any, client: Any) -> Path | None:
    for file in _files(hub):
        try:
            return Path(client.hf_hub_download(**file, local_files_only=True))
        except errors.LocalEntryNotFoundError:
            continue
    return None


def _downloaded(hub: Hub, errors: Any, client: Any) -> Path:
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE:
        raise errors.OfflineModeIsEnabled
    httpx.head(constants.ENDPOINT, timeout=10.0)  # the client would try six times over before it gives up
    theirs, converted = _files(hub)
    try:
        return Path(client.hf_hub_download(**theirs))
    except errors.RemoteEntryNotFoundError:
        return Path(client.hf_hub_download(**converted))
