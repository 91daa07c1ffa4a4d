"""Lists without brackets: a set, or a tuple in the order of names if the parts are assignments to different names."""

from __future__ import annotations

from sureenough.answers.brackets import closes_at_end, split_outside_brackets
from sureenough.answers.intervals import interval_union
from sureenough.answers.key_types import Key, Read, row_key, set_key, sorted_set, unread_key
from sureenough.answers.names import assignment, in_natural_order, natural_order, subject
from sureenough.answers.relations import is_range
from sureenough.answers.tokens import is_word
from sureenough.answers.vocabulary import LISTING

MAX_PARTS = 200


def read_list(tokens: list[str], depth: int, read: Read) -> Key | None:
    """A bare list is a set; a list of assignments to different names is a tuple in the names' order."""
    if "," not in tokens and ";" not in tokens and LISTING.isdisjoint(tokens):
        return None
    parts = [part for part in split_outside_brackets(tokens, (",", ";", *LISTING)) if part]
    if len(parts) < 2:
        return None
    if len(parts) > MAX_PARTS:
        return unread_key(tokens)
    named = [assignment(part) for part in parts]
    if all(named):
        return _assigned([pair for pair in named if pair], '"or' in tokens, depth, read) or unread_key(tokens)
    subjects = [subject(part) for part in parts]
    if subjects[0] and not any(subject is not None for subject in subjects[1:]):
        if named[0]:
            parts[0] = named[0][1]  # x = 1, 2 names the whole list, and so does (x, y) = (1, 2), (3, 4)
        elif subjects[0][0] == "(" and not in_natural_order(subjects[0][1:-1].split(",")):
            return unread_key(tokens)
    elif any(subjects) and len(set(subjects)) > 1:
        return set_key([unread_key(part) for part in parts])  # x > 1, y > 2 is not x > 2, y > 1
    keys = [read(part, depth + 1) for part in parts]
    if '"or' in tokens and all(is_range(part) for part in parts):
        return interval_union(keys)  # x < 1 or x > 2
    # "5 or more" is not a list of two, nor is "1, 2, 3, ..."; but "I and II" is.
    kinds = {key.kind for key in keys} - {"choice"}
    if ("text" in kinds and len(kinds) > 1) or _units_differ(parts, keys):
        return unread_key(tokens)
    return set_of_parts(list(zip(parts, keys, strict=True)))


def _units_differ(parts: list[list[str]], keys: list[Key]) -> bool:
    """Whether values have units that tell them apart: 2 hours and 30 minutes is not 30 hours and 2 minutes."""
    values = [part for part, key in zip(parts, keys, strict=True) if key.kind in ("number", "expression")]
    units = {tuple(filter(is_word, part)) for part in values} - {()}
    return len(units) > 1


def set_of_parts(parts: list[tuple[list[str], Key]]) -> Key:
    """A set; sets in braces inside it stay sets of their own: {{1,2},{3}} is not {{1},{2,3}}."""
    nested = [part[:1] == ["\\{"] and closes_at_end(part) for part, _ in parts]
    if not any(nested):
        return set_key([key for _, key in parts])
    elements = [
        Key("set", f"\\{{{key.text}\\}}", (key,)) if inner and key.kind != "set" else key
        for inner, (_, key) in zip(nested, parts, strict=True)
    ]
    return sorted_set(set(elements))


def _assigned(pairs: list[tuple[str, list[str]]], either: bool, depth: int, read: Read) -> Key | None:
    """X = 1 or x = 2 is a set; x = 1, y = 2 a tuple in the order of names; several of those, their set."""
    names = sorted({name for name, _ in pairs}, key=natural_order)
    if len(names) == 1:
        return set_key([read(value, depth + 1) for _, value in pairs])
    if either and len(pairs) == len(names):
        return None  # x = 1 or y = 2
    rows: list[Key] = []
    for start in range(0, len(pairs), len(names)):
        row = dict(pairs[start : start + len(names)])
        if sorted(row, key=natural_order) != names:
            return None
        rows.append(row_key("tuple", "(", [read(row[name], depth + 1) for name in names], ")"))
    return set_key(rows)
