"""The studios that notebooks hold: what a reader without Python sees is what Python computes now."""

import json
from html.parser import HTMLParser
from itertools import product
from pathlib import Path

import pytest
import torch

from tinyattn import patterns
from tinyattn.show.bitmaps import pack
from tinyattn.show.palette import ATOMS

BOOK = Path(__file__).parents[2] / "book"
NAMES = {"torch": torch, **{name: getattr(patterns, name) for name in patterns.__all__}}


class Studios(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.kits = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        if attrs.get("data-tinyattn-widget") == "studio":
            self.kits.append(json.loads(attrs["data-state"])["kit"])


def kits(path):
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        for output in cell.get("outputs", ()):
            yield from Studios("".join(output.get("data", {}).get("text/html", ""))).kits


STORED = {
    f"{path.stem}-{number}": kit
    for path in sorted(BOOK.rglob("[!.]*.ipynb"))
    for number, kit in enumerate(kits(path))
}


def test_there_are_studios_to_look_at():
    assert len(STORED) >= 5
    assert sum(len(preset["bitmaps"]) for kit in STORED.values() for preset in kit["presets"]) > 50


@pytest.mark.parametrize("kit", STORED.values(), ids=STORED)
def test_a_stored_preset_is_the_mask_of_the_call_beside_it(kit):
    for preset in kit["presets"]:
        for n, text in preset["bitmaps"].items():
            rule = eval(preset["at"][n]["call"], NAMES)
            assert text == pack(rule.mask(int(n))), (preset["key"], n)


@pytest.mark.parametrize("kit", STORED.values(), ids=STORED)
def test_a_stored_atom_has_the_masks_of_its_choices(kit):
    atoms = {atom.key: atom for atom in ATOMS}
    for offered in kit["atoms"]:
        for n, texts in offered["bitmaps"].items():
            places = product(*offered["choices"])
            for place, text in zip(places, texts.split(" "), strict=True):
                rule = atoms[offered["key"]].pattern(list(place), int(n))
                assert text == pack(rule.mask(int(n))), (offered["key"], place, n)
