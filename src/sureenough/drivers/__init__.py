"""Drivers: they carry out a session's actions and tell it what happened, and decide nothing themselves."""

from __future__ import annotations

from sureenough.drivers.replay import replay

__all__ = ["replay"]
