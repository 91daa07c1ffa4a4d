"""HTTP/1.1 without I/O: bodies however they are cut, and replies that are none."""

from __future__ import annotations

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sureenough.engines.openai.http1 import Body, head_of, request_bytes


def head(*headers: str, status: int = 200, version: str = "1.1") -> bytes:
    return "\r\n".join([f"HTTP/{version} {status} Yes", *headers, "", ""]).encode()


def chunked(parts: list[bytes], trailer: bytes = b"") -> bytes:
    return b"".join(b"%X;x=1\r\n%s\r\n" % (len(part), part) for part in parts if part) + b"0\r\n" + trailer + b"\r\n"


@given(st.lists(st.binary(max_size=40)), st.lists(st.integers(1, 30), min_size=1), st.booleans())
def test_a_chunked_body_however_it_is_cut(parts: list[bytes], cuts: list[int], trailer: bool) -> None:
    raw = chunked(parts, b"X-Sum: 1\r\n" if trailer else b"")
    body = Body(head_of(head("Transfer-Encoding: chunked")))
    got, at, turn = b"", 0, 0
    while at < len(raw):
        assert not body.done
        size = cuts[turn % len(cuts)]
        got += body.feed(raw[at : at + size])
        at, turn = at + size, turn + 1
    assert (got, body.done, body.reusable) == (b"".join(parts), True, True)


def test_a_body_of_known_length_and_one_until_the_end() -> None:
    body = Body(head_of(head("Content-Length: 5")))
    assert (body.feed(b"abc"), body.done, body.feed(b"def"), body.done) == (b"abc", False, b"de", True)
    body = Body(head_of(head()))
    assert (body.feed(b"abc"), body.done, body.end(), body.done, body.reusable) == (b"abc", False, b"", True, False)
    assert Body(head_of(head("Content-Length: 0"))).done
    assert Body(head_of(head(status=204))).done


@pytest.mark.parametrize("lines", [["Connection: close"], []])
def test_what_is_not_used_again(lines: list[str]) -> None:
    version = "1.1" if lines else "1.0"
    assert not Body(head_of(head("Content-Length: 0", *lines, version=version))).reusable


@pytest.mark.parametrize(
    "raw", [b"SSH-2.0-x\r\n\r\n", b"HTTP/2 200\r\n\r\n", b"HTTP/1.1 two\r\n\r\n", b"HTTP/1.1 200 x\r\nno colon\r\n\r\n"]
)
def test_heads_that_are_none(raw: bytes) -> None:
    with pytest.raises(httpx.RemoteProtocolError):
        head_of(raw)


@pytest.mark.parametrize("raw", [b"zz\r\n", b"-1\r\n", b"\r\n", b"1" * 70_000])
def test_chunks_that_are_none(raw: bytes) -> None:
    with pytest.raises(httpx.RemoteProtocolError):
        Body(head_of(head("Transfer-Encoding: chunked"))).feed(raw)


def test_a_body_that_ends_too_soon() -> None:
    for lines in ("Transfer-Encoding: chunked", "Content-Length: 5"):
        with pytest.raises(httpx.RemoteProtocolError, match="without sending complete"):
            Body(head_of(head(lines))).end()
    with pytest.raises(httpx.RemoteProtocolError, match="not a length"):
        Body(head_of(head("Content-Length: -1")))


def test_a_request_cannot_smuggle_lines() -> None:
    request = httpx.Request("POST", "http://h/v1?x=1", headers={"X": "a"}, content=b"body")
    assert request_bytes(request, b"body").startswith(b"POST /v1?x=1 HTTP/1.1\r\nHost: h\r\n")
    with pytest.raises(httpx.LocalProtocolError):
        request_bytes(httpx.Request("GET", "http://h/", headers={"X": "a\r\nY: b"}), b"")
