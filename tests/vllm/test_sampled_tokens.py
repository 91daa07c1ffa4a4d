"""The texts of tokens one by one, and the ids with which a text that was sampled is continued."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sureenough.vllm import sampled_tokens as module
from sureenough.vllm.sampled_tokens import MOST_HELD, SampledTokens, TokenSequence, TokenTexts

SPECIAL = 256
BROKEN = "\ufffd"
Change = Callable[[str], str]


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


class Changing(Bytes):
    """Changes what it encodes, or what it decodes."""

    def __init__(self, decoded: Change = str, encoded: Change = str, *longer: bytes) -> None:
        super().__init__(*longer)
        self.changes = decoded, encoded

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        return super().encode(self.changes[1](text), add_special_tokens=add_special_tokens)

    def decode(self, ids: Sequence[int], *, skip_special_tokens: bool) -> str:
        return self.changes[0](super().decode(ids, skip_special_tokens=skip_special_tokens))


def without_first_space(text: str) -> str:
    """As sentencepiece does."""
    return text.removeprefix(" ")


def tidy(text: str) -> str:
    """As `clean_up_tokenization_spaces` of transformers does."""
    return text.replace(" .", ".")


def tidy_alone(text: str) -> str:
    """Only of tokens that stand alone."""
    return text.strip() if len(text) == 1 else text


def growing(*longer: bytes) -> TokenSequence:
    return TokenSequence(TokenTexts(Bytes(*longer)))


@pytest.mark.parametrize(
    ("tokenizer", "exact"),
    [
        (Bytes(), True),
        (Changing(without_first_space), False),
        (Changing(tidy), False),
        (Changing(tidy, str, b" ."), False),
        (Changing(tidy_alone), False),
        (Changing(encoded=str.lower), False),
    ],
)
def test_a_tokenizer_whose_tokens_change_with_their_place_is_found(tokenizer: Bytes, exact: bool) -> None:
    assert TokenTexts(tokenizer).exact is exact


def test_a_token_is_decoded_once() -> None:
    tokenizer = Bytes()
    texts = TokenTexts(tokenizer)
    assert TokenSequence(texts).add(b"QQQ") == TokenSequence(texts).add(b"QQQ") == ["Q", "Q", "Q"]
    assert tokenizer.decoded == [[ord("Q")]]


@pytest.mark.parametrize(
    ("chunks", "texts", "rest"),
    [
        (["aéb".encode()], [["a", "", "é", "b"]], ""),
        (["a€b".encode()], [["a", "", "", "€", "b"]], ""),
        (["a😀b".encode()], [["a", "", "", "", "😀", "b"]], ""),
        ([b"\xe2", b"", b"\x82", b"\xac"], [[""], [], [""], ["€"]], ""),
        ([b"\xe2\x82"], [["", ""]], BROKEN),  # it never became whole
        ([[ord("a"), SPECIAL, 0xC3, SPECIAL, 0xA9, SPECIAL]], [["a", "", "", "", "é", ""]], ""),
    ],
)
def test_a_character_is_the_text_of_its_last_token(
    chunks: list[Sequence[int]], texts: list[list[str]], rest: str
) -> None:
    sequence = growing()
    assert [sequence.add(chunk) for chunk in chunks] == texts
    assert sequence.rest() == rest


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
    sequence = TokenSequence(TokenTexts(tokenizer))
    texts = sequence.add([0xE2] * 1000)
    assert "".join(texts) + sequence.rest() == BROKEN * 1000
    assert max(map(len, tokenizer.decoded)) <= MOST_HELD
    assert "".join(texts).count(BROKEN) > 1000 - MOST_HELD


PIECES = (b"ab", b".\n", b"\n\n", b"abc", b"c.")
AB, END_OF_LINE, BLANK_LINE, ABC, C_STOP = range(300, 300 + len(PIECES))
PHRASE = "\nso {"
PROMPT, OTHER = [1, 2, 3], [1, 2, 4]


class Merging(Bytes):
    """Encodes the longest pieces that it knows, and the name of its special token as that token."""

    def __init__(self) -> None:
        super().__init__(*PIECES)
        self.encoded: list[str] = []

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        self.encoded.append(text)
        known = {b"<s>": SPECIAL} | {piece: 300 + n for n, piece in enumerate(PIECES)}
        ids, rest = list[int](), text.encode()
        while rest:
            piece = max((one for one in known if rest.startswith(one)), key=len, default=rest[:1])
            ids.append(known.get(piece, rest[0]))
            rest = rest[len(piece) :]
        return ids


def ids_of(text: str) -> list[int]:
    return Merging().encode(text, add_special_tokens=False)


def remembering(*sampled: Sequence[int], prompt: list[int] = PROMPT) -> SampledTokens:
    memory = SampledTokens(TokenTexts(Merging()))
    for ids in sampled:
        sample(memory, ids, prompt=prompt)
    return memory


def sample(memory: SampledTokens, ids: Sequence[int], beginning: str = "", prompt: list[int] = PROMPT) -> None:
    sequence = memory.begin(prompt, beginning)
    sequence.add(ids)
    sequence.rest()
    memory.keep(prompt, sequence)


def found(memory: SampledTokens, text: str, prompt: list[int] = PROMPT) -> list[int]:
    return list(memory.begin(prompt, text).ids)


LINES = [AB, END_OF_LINE, ord("x"), BLANK_LINE]
EURO = list("a€b".encode())
BEGINNINGS: list[tuple[list[Sequence[int]], str, list[int]]] = [
    ([b"ab"], "ab", [*b"ab"]),  # not [AB], as it would be encoded
    ([b"ab"], "ab" + PHRASE, [*b"ab", *ids_of(PHRASE)]),
    ([b"ab"], "abc.", [*b"ab", C_STOP]),  # what follows is encoded alone: not [ABC, "."]
    ([LINES], "a", [ord("a")]),  # within the first token
    ([LINES], "ab", [AB]),
    ([LINES], "ab.", [AB, ord(".")]),  # a line without the line feed, which is half of its last token
    ([LINES], "ab.\n", [AB, END_OF_LINE]),
    ([LINES], "ab.\nx", [AB, END_OF_LINE, ord("x")]),
    ([LINES], "ab.\nx\n", [AB, END_OF_LINE, *b"x\n"]),  # the first of two line feeds, which are one token
    ([LINES], "ab.\nx\n\n", LINES),
    ([LINES], "ab.\nx\n\ny", [*LINES, ord("y")]),  # longer than what was sampled
    ([LINES], "ax", [*b"ax"]),
    ([LINES], "", []),
    ([b"abc", [AB, *b"cx"], b"a", [ord("b"), AB]], "abcx", [AB, *b"cx"]),  # the longest of several
    ([b"abc", [AB, *b"cx"], b"a", [ord("b"), AB]], "bab", [ord("b"), AB]),
    ([[*b"ab", SPECIAL]], "ab" + PHRASE, [*b"ab", *ids_of(PHRASE)]),  # without the token that ended the path
    ([[ord("x"), SPECIAL, *b"ab"]], "xab", [ord("x"), SPECIAL, *b"ab"]),  # this one ended nothing
    ([EURO], "a", [ord("a")]),
    ([EURO], "a€", EURO[:-1]),  # characters of several tokens are not cut
    ([b"a\xe2\x82"], "a" + BROKEN, [*b"a\xe2\x82"]),  # one that never became whole keeps its tokens
]


@pytest.mark.parametrize(("sampled", "text", "ids"), BEGINNINGS)
def test_a_beginning_has_the_tokens_that_were_sampled(sampled: list[Sequence[int]], text: str, ids: list[int]) -> None:
    assert found(remembering(*sampled), text) == ids


def test_a_sequence_has_the_tokens_of_its_own_beginning() -> None:
    memory = remembering(list(b"ab"))
    sample(memory, [ord("c"), END_OF_LINE], beginning="ab")
    sample(memory, list(b"ab"), beginning="abc.\n")
    assert found(memory, "abc.\nab") == [*b"abc", END_OF_LINE, *b"ab"]


def test_prompts_have_their_own_sequences() -> None:
    memory = remembering(list(b"ab"))
    sample(memory, [AB, ord("x")], prompt=OTHER)
    assert (found(memory, "ab"), found(memory, "ab", OTHER)) == ([*b"ab"], [AB])
    assert found(memory, "ab", [9]) == [AB]


def test_a_text_that_its_tokens_do_not_give_back() -> None:
    """The name of a special token, say, of which nothing is left when it is decoded."""
    memory = remembering()
    sample(memory, list(b"ab"), beginning="x<s>")
    assert found(memory, "x<s>ab") == [ord("x"), SPECIAL, *b"ab"]
    assert found(memory, "x<s") == ids_of("x<s")


def test_without_exact_texts_everything_is_encoded() -> None:
    memory = SampledTokens(TokenTexts(Changing(without_first_space)))
    sample(memory, list(b" a b"))
    assert not memory._kept
    assert found(memory, " a b") == list(b" a b")


def test_continuations_of_one_beginning_look_for_it_once_and_do_not_share_what_follows() -> None:
    tokenizer = Merging()
    memory = SampledTokens(TokenTexts(tokenizer))
    first, second = (memory.begin(PROMPT, "xyz") for _ in range(2))
    first.add(list(b"ab"))
    assert list(second.ids) == list(b"xyz") == found(memory, "xyz")
    assert tokenizer.encoded.count("xyz") == 1
    assert found(memory, "xyz", OTHER) == list(b"xyz")
    assert tokenizer.encoded.count("xyz") == 2


def test_a_beginning_is_looked_for_again_once_more_has_been_sampled() -> None:
    memory = remembering()
    assert found(memory, "ab") == [AB]
    sample(memory, list(b"ab"))
    assert found(memory, "ab") == [*b"ab"]


def test_the_oldest_sequences_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_SEQUENCES", 3)
    memory = remembering(*([letter, *b"ab"] for letter in b"xyz"))
    assert found(memory, "xab") == [*b"xab"], "which makes it the latest"
    sample(memory, list(b"wab"))
    kept = {text: found(memory, text) == list(text.encode()) for text in ("xab", "yab", "zab", "wab")}
    assert kept == {"xab": True, "yab": False, "zab": True, "wab": True}


def test_tokens_are_bounded_over_all_prompts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_TOKENS", 11)
    memory = remembering()
    for letter, prompt in zip(b"xyz", ([1], [2], [1]), strict=True):
        sample(memory, [letter, *b"ab"], prompt=prompt)
    assert found(memory, "yab", [2]) == [ord("y"), AB], "of the prompt that was used least recently"
    assert [found(memory, text, [1]) for text in ("xab", "zab")] == [[*b"xab"], [*b"zab"]]
    sample(memory, [ord("q")] * 9)
    assert (memory._kept, memory._tokens) == ({}, 0)


SINGLE = [[token] for token in (*b"abc.\n", AB, ABC, C_STOP, END_OF_LINE, BLANK_LINE, SPECIAL)]
TOKENS = st.lists(st.sampled_from([*SINGLE, list("€".encode())])).map(lambda parts: list(chain(*parts)))


@given(st.lists(TOKENS, min_size=1, max_size=6), st.data())
def test_any_beginning_is_found_as_far_as_its_tokens_go(sampled: list[list[int]], data: st.DataObject) -> None:
    texts, memory = TokenTexts(Merging()), remembering(*sampled)
    ids = data.draw(st.sampled_from(sampled))
    text = texts.decoded(ids)
    cut = data.draw(st.integers(0, len(text)))
    result = found(memory, text[:cut])
    assert texts.decoded(result) == text[:cut]
    if any(texts.decoded(ids[:n]) == text[:cut] for n in range(len(ids) + 1)):  # the cut is between tokens
        assert any(one[: len(result)] == result for one in sampled), "in this sequence, or in another of this text"
