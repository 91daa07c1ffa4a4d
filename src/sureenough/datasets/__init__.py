"""Datasets by name, and files of questions."""

from __future__ import annotations

from sureenough.datasets.builtin import DATASETS
from sureenough.datasets.dataset import Dataset, Hub

__all__ = ["DATASETS", "Dataset", "Hub"]
