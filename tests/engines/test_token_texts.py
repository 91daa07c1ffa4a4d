"""The texts of single tokens: together they are the text of all tokens, also where characters are split."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from sureenough.engines.vllm.token_texts import MOST_HELD, TRIED, GrowingTexts, TokenTexts

SPECIAL = 256
BROKEN = "\ufffd"


class Bytes:
    """A tokenizer with a token per byte, one special token, and further tokens of several bytes from 300 on."""

    def __init__(self, *longer: bytes) -> None:
        self.longer = longer
        self.decoded: list[list[int]] = []

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        assert not add_special_tokens
        return list(text.encode())

    def decode(self, ids: Sequence[int], *, skip_special_tokens: bool) -> str:
        assert skip_special_tokens
        self.decoded.append(list(ids))
        parts = [self.longer[token - 300] if token >= 300 else bytes([token]) for token in ids if token != SPECIAL]
        return b"".join(parts).decode(errors="replace")


class Sentences(Bytes):
    """Leaves out a space at the beginning of what it decodes, as sentencepiece does."""

    def decode(self, ids: Sequence[int], *, skip_special_tokens: bool) -> str:
        return super().decode(ids, skip_special_tokens=skip_special_tokens).removeprefix(" ")


class Tidy(Bytes):
    """Removes the space before a full stop, as `clean_up_tokenization_spaces` of transformers does."""

    def decode(self, ids: Sequence[int], *, skip_special_tokens: bool) -> str:
        return super().decode(ids, skip_special_tokens=skip_special_tokens).replace(" .", ".")


class Lowering(Bytes):
    """Changes what it encodes."""

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        return super().encode(text.lower(), add_special_tokens=add_special_tokens)


def growing(*longer: bytes) -> GrowingTexts:
    return GrowingTexts(TokenTexts(Bytes(*longer)))


@pytest.mark.parametrize(
    ("tokenizer", "exact"),
    [(Bytes(), True), (Sentences(), False), (Tidy(), False), (Tidy(b" ."), False), (Lowering(), False)],
)
def test_a_tokenizer_whose_tokens_change_with_their_place_is_found(tokenizer: Bytes, exact: bool) -> None:
    assert TokenTexts(tokenizer).exact is exact


def test_a_tokenizer_that_tidies_only_tokens_that_stand_alone_is_found() -> None:
    class Alone(Bytes):
        def decode(self, ids: Sequence[int], *, skip_special_tokens: bool) -> str:
            text = super().decode(ids, skip_special_tokens=skip_special_tokens)
            return text.strip() if len(ids) == 1 else text

    assert Alone().decode(list(TRIED.encode()), skip_special_tokens=True) == TRIED
    assert not TokenTexts(Alone()).exact


def test_a_token_is_decoded_once() -> None:
    tokenizer = Bytes()
    texts = TokenTexts(tokenizer)
    tokenizer.decoded.clear()
    assert GrowingTexts(texts).add(b"QQQ") == GrowingTexts(texts).add(b"QQQ") == ["Q", "Q", "Q"]
    assert tokenizer.decoded == [[ord("Q")]]


@pytest.mark.parametrize("character", ["é", "€", "😀"])
def test_a_character_is_the_text_of_its_last_token(character: str) -> None:
    texts = growing()
    held = [""] * (len(character.encode()) - 1)
    assert texts.add(f"a{character}b".encode()) == ["a", *held, character, "b"]
    assert texts.rest() == ""


def test_a_character_may_be_split_over_chunks() -> None:
    texts, (first, second, third) = growing(), "€".encode()
    assert [texts.add([first]), texts.add([]), texts.add([second]), texts.add([third])] == [[""], [], [""], ["€"]]


def test_the_rest_is_what_never_became_whole() -> None:
    texts = growing()
    assert texts.add("€".encode()[:2]) == ["", ""]
    assert texts.rest() == BROKEN
    whole = growing()
    whole.add(b"whole")
    assert whole.rest() == ""


def test_special_tokens_have_no_text_and_do_not_break_a_character() -> None:
    first, *others = "é".encode()
    texts = growing()
    assert texts.add([ord("a"), SPECIAL, first, SPECIAL, *others, SPECIAL]) == ["a", "", "", "", "é", ""]
    assert texts.rest() == ""


def test_two_paths_do_not_share_what_they_hold() -> None:
    texts = TokenTexts(Bytes())
    one, other = GrowingTexts(texts), GrowingTexts(texts)
    first, second = "é".encode()
    assert (one.add([first]), other.add(b"x"), one.add([second])) == ([""], ["x"], ["é"])


INVALID = [
    b"\xff",  # never part of a text
    b"\x80\x80a",  # a character without its beginning
    b"a\xe2\x82b",  # one without its end
    b"\xe2\xe2\xe2\xe2\x82\xac!",  # a whole one after several beginnings
    b"\xff\xf0\x9f\x98\x80",  # a whole one of four bytes after a stray byte
    BROKEN.encode() + b"a" + BROKEN.encode(),  # the replacement itself is a character
]


@pytest.mark.parametrize("sent", INVALID)
def test_bytes_that_are_no_text_cost_nothing_around_them(sent: bytes) -> None:
    texts = growing()
    assert "".join(texts.add(sent)) + texts.rest() == sent.decode(errors="replace")


def test_tokens_may_end_one_character_and_begin_the_next() -> None:
    """Emoji with joiners: no end of a token is the end of a character until the last."""
    text = "😀\u200d🙂\u200d😀!"
    pieces = [text.encode()[at : at + 3] for at in range(0, len(text.encode()), 3)]
    texts = growing(*pieces)
    assert "".join(texts.add(range(300, 300 + len(pieces)))) + texts.rest() == text


def test_endless_broken_bytes_are_passed_on_and_decoded_a_few_at_a_time() -> None:
    tokenizer = Bytes()
    texts = GrowingTexts(TokenTexts(tokenizer))
    said = texts.add([0xE2] * 1000)
    assert len(said) == 1000
    assert "".join(said) + texts.rest() == BROKEN * 1000
    assert max(map(len, tokenizer.decoded)) <= max(MOST_HELD, len(TRIED))
    assert "".join(said).count(BROKEN) > 1000 - MOST_HELD
