"""The glossary: every word in two languages, and found from both."""

import re
from pathlib import Path

import pytest

BOOK = Path(__file__).parents[1] / "book"
TEXT = (BOOK / "appendices" / "glossary.md").read_text(encoding="utf-8")
LIST = TEXT.split("```{glossary}\n")[1].split("```")[0]
ENTRIES = [entry.splitlines() for entry in LIST.strip().split("\n\n")]
ENGLISH = [entry[0] for entry in ENTRIES]
ROWS = re.findall(r"^\| (\S+) \| ([^|]+) \| \{term\}`([^`]+)` \|$", TEXT, re.MULTILINE)


@pytest.mark.parametrize("entry", ENTRIES, ids=ENGLISH)
def test_an_entry_is_an_english_and_a_chinese_word_and_a_sentence(entry):
    english, chinese, meaning = entry
    assert re.fullmatch(r"[A-Za-z -]+", english)
    assert re.fullmatch(r"[\u4e00-\u9fff]+", chinese)
    assert meaning.startswith("  ")
    assert meaning.endswith(".")


def test_words_stand_in_alphabetical_order_and_once():
    assert sorted(ENGLISH, key=str.lower) == ENGLISH
    for words in zip(*[entry[:2] for entry in ENTRIES], strict=True):
        assert len(set(words)) == len(words)


def test_the_chinese_index_holds_the_same_pairs():
    assert sorted((row[2], row[0]) for row in ROWS) == sorted((e[0], e[1]) for e in ENTRIES)


def test_every_family_and_pattern_of_the_survey_has_a_word():
    for word in ("sparse", "linearised", "low-rank", "prior", "multi-head", "memory", "prototype"):
        assert any(word in english for english in ENGLISH), word


def test_chapters_lead_to_the_glossary():
    linked = [
        path.name for path in BOOK.glob("[0-9]*.ipynb") if "{term}`" in path.read_text("utf-8")
    ]
    assert len(linked) >= 6
