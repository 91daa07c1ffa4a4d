"""A figure's SVG file as part of an HTML page whose content security policy allows no inline styles.

Style declarations become attributes, black becomes the page's text colour and white transparent, ids get a prefix that
keeps figures apart, and points and bars get their values as `<title>`, which browsers show on hovering.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from typing import Final

THEMED: Final = {"#000000": "currentColor", "#ffffff": "none"}
KEPT: Final = {"svg", "g", "defs", "path", "use", "clipPath", "rect", "text", "tspan"}
DROPPED_STYLES: Final = {"font-family"}  # the page has its own


def inline_svg(svg: str, label: str, prefix: str, hover: Mapping[str, Sequence[str]]) -> str:
    """An `<svg>` element; `hover` holds the texts of each id, one per marker in it or one for all."""
    root = ET.fromstring(svg)
    _clean(root, prefix)
    for element in list(root.iter()):
        texts = hover.get(element.get("id", "").removeprefix(prefix), ())
        markers = list(element.iter("use")) or [element]
        if texts and len(texts) == len(markers):
            for marker, text in zip(markers, texts, strict=True):
                title = ET.Element("title")
                title.text = text
                marker.insert(0, title)
    view_box = root.get("viewBox", "0 0 400 300")
    root.attrib = {"viewBox": view_box, "role": "img", "aria-label": label, "stroke-linejoin": "round"}
    return ET.tostring(root, encoding="unicode")


def _clean(element: ET.Element, prefix: str) -> None:
    element.tag = element.tag.rpartition("}")[2]
    attributes: dict[str, str] = {}
    for name, value in element.attrib.items():
        local = name.rpartition("}")[2]
        if local == "style":
            pairs = (declaration.partition(":") for declaration in value.split(";"))
            styles = {key.strip(): text.strip() for key, _, text in pairs if key.strip() not in DROPPED_STYLES}
            attributes |= {key: THEMED.get(text, text) for key, text in styles.items() if key}
        elif local == "id":
            attributes["id"] = prefix + value
        else:
            attributes[local] = re.sub(r"^#|(?<=url\()#", f"#{prefix}", value)
    element.attrib = attributes
    if element.tag == "text":
        attributes.setdefault("fill", "currentColor")
    for child in list(element):
        if child.tag.rpartition("}")[2] not in KEPT or child.get("id") == "title":  # the page prints the title itself
            element.remove(child)
        else:
            _clean(child, prefix)
