"""Files from the Hugging Face hub, through its own client: its cache, its login, its offline switch."""

from __future__ import annotations

from pathlib import Path

from sureenough.bench.datasets.dataset import Dataset
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
        from huggingface_hub import hf_hub_download
        from huggingface_hub import errors as said
    except ImportError:
        raise UsageError(
            f"{dataset.name} is fetched from the Hugging Face hub, and its client is not installed: "
            f"pip install 'sureenough[bench]'. {instead}"
        ) from None
    try:
        try:
            return Path(hf_hub_download(hub.id, hub.file, repo_type="dataset"))
        except said.RemoteEntryNotFoundError:
            return Path(hf_hub_download(hub.id, hub.converted, repo_type="dataset", revision="refs/convert/parquet"))
    except said.GatedRepoError:
        raise UsageError(
            f"{hub.id} is gated: accept its terms at https://huggingface.co/datasets/{hub.id}, then log in with "
            f"`hf auth login` or set HF_TOKEN. {instead}"
        ) from None
    except (said.RepositoryNotFoundError, said.RemoteEntryNotFoundError, said.RevisionNotFoundError):
        raise UsageError(f"the hub has no {hub.id} with {hub.file} any more, or not for you. {instead}") from None
    except Exception as error:  # the client's errors are many, and none of them is ours to explain
        why = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise UsageError(f"{hub.id} could not be fetched from the hub ({why[:200]}). {instead}") from None
