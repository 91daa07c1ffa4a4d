"""Engines generate paths: one async generator per path. Closing the generator cancels the path."""

from sureenough.engines.base import End, Engine, Piece, Prompt, Report
from sureenough.engines.fake import Fake

__all__ = ["End", "Engine", "Fake", "Piece", "Prompt", "Report"]
