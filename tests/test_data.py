"""Real inputs: what they are, how they are split, and what is said when one is missing."""

import sys
from datetime import date, timedelta
from itertools import pairwise

import numpy as np
import pytest
import torch

from tinyattn import data
from tinyattn.data import (
    DATE_FORMATS,
    FIRST_DAY,
    LAST_DAY,
    Characters,
    date_pairs,
    digits,
    language_reference,
    ordinal,
    photograph,
    split_blocks,
    split_days,
    without_repeats,
    write_date,
)

EVERY_DAY = [FIRST_DAY + timedelta(days=d) for d in range((LAST_DAY - FIRST_DAY).days + 1)]


# ------------------------------------------------------------------------------------- text


def test_the_language_reference_is_the_text_of_help():
    text = language_reference()
    assert 'The "for" statement' in text
    assert 400_000 < len(text) < 700_000
    assert text == language_reference()


@pytest.mark.skipif(sys.version_info[:3] != (3, 11, 7), reason="another Python, another text")
def test_its_length_is_the_one_the_docstring_names():
    assert len(language_reference()) == 465_048


def test_a_paragraph_said_twice_is_kept_once_where_it_first_stood():
    text = "a b\n\nc\n\n   a\n   b\n\nd\n\nc"
    assert without_repeats(text) == "a b\n\nc\n\nd"
    assert without_repeats(without_repeats(text)) == without_repeats(text)


def share_of_held_out_text_seen_in_training(text):
    """How many held-out runs of 60 characters stand word for word in the training part."""
    train, held_out = split_blocks(len(text), 4096)
    seen = "\0".join(text[part] for part in train)
    runs = [
        text[start : start + 60]
        for part in held_out
        for start in range(part.start, part.stop - 60, 60)
    ]
    return sum(run in seen for run in runs) / len(runs)


def test_without_repeats_the_held_out_blocks_are_really_unseen():
    text = language_reference()
    assert share_of_held_out_text_seen_in_training(text) > 0.15
    assert share_of_held_out_text_seen_in_training(without_repeats(text)) < 0.05


def test_the_codec_gives_back_every_text_of_its_alphabet():
    text = language_reference()[:5000]
    codec = Characters(text)
    assert codec.decode(codec.encode(text)) == text
    assert codec.alphabet == "".join(sorted(set(text)))
    assert len(codec) == len(set(text))
    assert Characters(codec.alphabet) == codec


def test_a_strange_character_is_refused_or_becomes_the_unknown_one():
    with pytest.raises(
        ValueError, match=r"text must use the alphabet's characters, got also \['z'\]"
    ):
        Characters("abc").encode("abz")
    codec = Characters("abc" + Characters.UNKNOWN)
    assert codec.decode(codec.encode("azb")) == "a" + Characters.UNKNOWN + "b"


def test_the_codec_refuses_nothing_and_numbers_outside():
    with pytest.raises(ValueError, match="at least one character, got an empty text"):
        Characters("")
    with pytest.raises(ValueError, match=r"tokens must lie in 0 \.\. 2, got 3"):
        Characters("abc").decode([0, 3, 9])
    with pytest.raises(ValueError, match=r"tokens must lie in 0 \.\. 2, got -1"):
        Characters("abc").decode(torch.tensor([-1]))


@pytest.mark.parametrize(("n", "block_size"), [(10, 2), (1000, 64), (1001, 64), (65, 64)])
def test_blocks_cover_every_position_once(n, block_size):
    train, held_out = split_blocks(n, block_size, held_out=0.3, seed=5)
    positions = [i for part in train + held_out for i in range(part.start, part.stop)]
    assert sorted(positions) == list(range(n))
    for part in held_out:
        assert part.start % block_size == 0
        assert part.stop - part.start == block_size or part.stop == n
    assert all(a.stop < b.start for a, b in pairwise(train))


def test_the_split_depends_on_the_seed_alone():
    assert split_blocks(1000, 10, seed=1) == split_blocks(1000, 10, seed=1)
    assert split_blocks(1000, 10, seed=1) != split_blocks(1000, 10, seed=2)
    state = torch.get_rng_state()
    split_blocks(1000, 10)
    split_days()
    assert torch.equal(torch.get_rng_state(), state)


def test_a_split_with_an_empty_side_is_refused():
    with pytest.raises(ValueError, match=r"leave blocks on both sides, got held_out=0.1 of 2"):
        split_blocks(20, 10)
    with pytest.raises(ValueError, match=r"leave days on both sides, got held_out=1.0"):
        split_days(held_out=1.0)
    with pytest.raises(ValueError, match="got n=0, block_size=3"):
        split_blocks(0, 3)
    with pytest.raises(ValueError, match="first must not come after last"):
        split_days(date(2000, 1, 2), date(2000, 1, 1))


# ----------------------------------------------------------------------------------- pictures


def test_digits_are_1797_pictures_of_ten_kinds():
    images, labels = digits()
    assert images.shape == (1797, 8, 8)
    assert images.dtype == torch.float32
    assert (images.min(), images.max()) == (0, 16)
    assert torch.bincount(labels).shape == (10,)
    assert torch.bincount(labels).min() > 170


def test_the_photograph_is_a_colour_picture():
    picture = photograph()
    assert picture.shape == (600, 512, 3)
    assert picture.dtype == np.uint8
    assert picture.std() > 40


# -------------------------------------------------------------------------------------- dates


def test_no_written_date_stands_for_two_days():
    meaning = {}
    for day in EVERY_DAY:
        for format in DATE_FORMATS:
            assert meaning.setdefault(write_date(day, format), day) == day


def test_there_are_at_least_ten_formats_and_all_differ():
    assert len(set(DATE_FORMATS)) == len(DATE_FORMATS) >= 10
    assert len({write_date(date(1998, 3, 4), format) for format in DATE_FORMATS}) == len(
        DATE_FORMATS
    )


def test_iso_dates_are_those_of_the_standard_library():
    assert [write_date(day) for day in EVERY_DAY[::97]] == [
        day.isoformat() for day in EVERY_DAY[::97]
    ]


@pytest.mark.parametrize(
    ("format", "code"),
    [
        ("{month} {dd}, {year}", "%B %d, %Y"),
        ("{weekday}, {mon} {dd} {yy}", "%A, %b %d %y"),
        ("{wkd} {dd}.{mm}.{year}", "%a %d.%m.%Y"),
    ],
)
def test_fields_equal_strftime(format, code):
    for day in EVERY_DAY[::31]:
        assert write_date(day, format) == day.strftime(code)


def test_months_are_counted_in_roman_numbers():
    written = [write_date(date(2001, month, 1), "{roman}") for month in range(1, 13)]
    assert written == ["I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII"]


def test_ordinals_of_a_month():
    special = {1: "1st", 2: "2nd", 3: "3rd", 21: "21st", 22: "22nd", 23: "23rd", 31: "31st"}
    assert all(ordinal(n) == special.get(n, f"{n}th") for n in range(1, 32))


def test_dates_that_cannot_be_written_are_refused():
    with pytest.raises(ValueError, match="a two-digit year must lie in 1969-2068, got 1968"):
        write_date(date(1968, 12, 31), "{d}.{m}.{yy}")
    assert write_date(date(1968, 12, 31), "{d}.{m}.{year}") == "31.12.1968"
    for wrong in ("{jour}", "{}", "{0}"):
        with pytest.raises(ValueError, match="format must use the fields d, dd, nth"):
            write_date(date(2000, 1, 1), wrong)


def test_held_out_days_are_unseen_in_every_format():
    train, held_out = split_days(seed=3)
    assert sorted(train + held_out) == EVERY_DAY
    assert set(train).isdisjoint(held_out)
    written = {text for text, _ in date_pairs(train[:3000])}
    assert written.isdisjoint(text for text, _ in date_pairs(held_out))


def test_pairs_hold_every_day_in_every_format():
    days = EVERY_DAY[:7]
    pairs = date_pairs(days)
    assert len(pairs) == 7 * len(DATE_FORMATS)
    assert {iso for _, iso in pairs} == {day.isoformat() for day in days}


# ------------------------------------------------------------------------------ missing sources


@pytest.mark.parametrize(
    ("source", "module", "advice"),
    [
        (language_reference, "pydoc_data", "use a complete Python from python.org"),
        (digits, "sklearn", "pip install scikit-learn"),
        (photograph, "matplotlib", "pip install --force-reinstall matplotlib"),
        (photograph, "PIL", "pip install pillow"),
    ],
)
def test_a_missing_source_is_named_with_the_package_that_gives_it(
    source, module, advice, monkeypatch
):
    for name in [name for name in sys.modules if name.split(".")[0] == module]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)  # Python's way of saying: not installed
    with pytest.raises(ModuleNotFoundError, match=advice):
        source()


def test_a_source_that_fails_for_another_reason_says_so_itself(monkeypatch):
    def broken(name):
        raise ModuleNotFoundError("No module named 'threadpoolctl'", name="threadpoolctl")

    monkeypatch.setattr(data.importlib, "import_module", broken)
    with pytest.raises(ModuleNotFoundError, match="No module named 'threadpoolctl'"):
        digits()


def test_a_matplotlib_without_sample_data_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr("matplotlib.get_data_path", lambda: str(tmp_path))
    with pytest.raises(FileNotFoundError, match=r"grace_hopper.jpg. It comes with matplotlib"):
        photograph()


@pytest.mark.parametrize("format", ["{yy}", "{yy!s}", "{yy:>2}", "{d} {yy:}"])
def test_a_year_of_two_digits_is_refused_outside_its_century_however_it_is_written(format):
    assert "50" in write_date(date(2050, 1, 1), format)
    with pytest.raises(ValueError, match="a two-digit year must lie in 1969-2068, got 1950"):
        write_date(date(1950, 1, 1), format)


@pytest.mark.parametrize("format", ["{d.x}", "{d[x]}", "{}", "{day}", "{d:z}", "{d"])
def test_a_format_that_asks_for_something_else_is_refused(format):
    with pytest.raises(ValueError, match="format must use the fields d, dd"):
        write_date(date(1998, 3, 4), format)
