"""Drivers: they carry out a session's actions and tell it what happened, and decide nothing themselves."""

from __future__ import annotations

from sureenough.drive.replay import replay

__all__ = ["replay"]
