"""Datasets by name, and files of questions."""

from __future__ import annotations

from sureenough.datasets.builtin import DATASETS, Dataset, Hub

__all__ = ["DATASETS", "Dataset", "Hub"]
