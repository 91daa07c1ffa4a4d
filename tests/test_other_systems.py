"""What differs on Windows and macOS, as far as Linux can show it; the file locks are in test_output_lock.py."""

from __future__ import annotations

import io
import socket
import sys

import pytest

from sureenough.cli import _allow_any_text
from sureenough.server.app import listen
from sureenough.server.settings import ServerSettings


@pytest.mark.parametrize(
    ("encoding", "written"), [("cp1252", b"?? \xe9"), ("ascii", b"?? ?"), ("utf-8", "█≥ é".encode())]
)
def test_a_stream_that_lacks_a_character_gets_another(
    encoding: str, written: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    monkeypatch.setattr(sys, "stdout", stream)
    _allow_any_text()
    stream.write("█≥ é")
    stream.flush()
    assert stream.buffer.getvalue() == written


def test_windows_does_not_share_a_port(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "SO_EXCLUSIVEADDRUSE", socket.SO_KEEPALIVE, raising=False)
    with listen(ServerSettings(port=0)) as listening:
        assert listening.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert not listening.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR)
