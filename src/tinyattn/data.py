"""Real inputs that arrive with the installation: nothing is downloaded, nothing is copied.

Text is the language reference that CPython ships for `help()`, labelled images are scikit-learn's
digits, the photograph is one of matplotlib's samples, and dates are written the way people write
them. Every split is drawn from a seed, so the same call gives the same split everywhere.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from string import Formatter
from types import ModuleType

import numpy as np
import torch
from jaxtyping import Float, Int64, UInt8
from torch import Tensor

# ------------------------------------------------------------------------------------- text


def language_reference() -> str:
    """CPython's own reference, the text behind `help("for")`: topics in sorted order, joined.

    Its length depends on the Python version (465,048 characters in 3.11.7). Topics quote each
    other at length: see `without_repeats` before measuring anything on held-out parts.

    Raises:
        ModuleNotFoundError: if this Python was built without its help texts.
    """
    topics = _module(
        "pydoc_data.topics",
        "the text of the Python language reference",
        "It belongs to CPython's standard library, which some minimal builds trim: "
        "use a complete Python from python.org, conda or your distribution.",
    ).topics
    return "\n".join(topics[name] for name in sorted(topics))


def without_repeats(text: str) -> str:
    """`text` with each paragraph kept once, where it first appears.

    A paragraph is what stands between blank lines; line breaks and indentation do not count. The
    reference holds many sections twice, and a held-out block that also stands in the training
    part measures memory instead of prediction.

    Example:
        >>> without_repeats("one\\ntwo\\n\\nthree\\n\\n  one two")
        'one\\ntwo\\n\\nthree'
    """
    first = {}
    for paragraph in text.split("\n\n"):
        first.setdefault(" ".join(paragraph.split()), paragraph)
    return "\n\n".join(first.values())


@dataclass(frozen=True)
class Characters:
    """A codec between text and token numbers: one number per distinct character.

    Args:
        alphabet: any text; its distinct characters in sorted order get the numbers 0, 1, ...
            If it holds `Characters.UNKNOWN`, characters outside the alphabet are read as that
            one; otherwise they are refused.

    Example:
        >>> codec = Characters("hello")
        >>> codec.alphabet, codec.encode("hole").tolist(), codec.decode([1, 0])
        ('ehlo', [1, 3, 2, 0], 'he')
    """

    UNKNOWN = "\N{REPLACEMENT CHARACTER}"

    alphabet: str

    def __post_init__(self) -> None:
        if not self.alphabet:
            raise ValueError("alphabet must hold at least one character, got an empty text")
        object.__setattr__(self, "alphabet", "".join(sorted(set(self.alphabet))))

    def __len__(self) -> int:
        return len(self.alphabet)

    def encode(self, text: str) -> Int64[Tensor, " n"]:
        """The token numbers of `text`.

        Raises:
            ValueError: if `text` holds a character outside an alphabet without `UNKNOWN`.
        """
        number = {character: i for i, character in enumerate(self.alphabet)}
        strange = sorted(set(text) - set(number))
        if strange and self.UNKNOWN not in number:
            raise ValueError(f"text must use the alphabet's characters, got also {strange}")
        number.update((character, number[self.UNKNOWN]) for character in strange)
        return torch.tensor([number[character] for character in text], dtype=torch.long)

    def decode(self, tokens: Iterable[int] | Tensor) -> str:
        """The text of token numbers, the inverse of `encode` on the alphabet.

        Raises:
            ValueError: if a number is not one of 0 .. len(codec) - 1.
        """
        numbers = [int(token) for token in tokens]
        if bad := [number for number in numbers if not 0 <= number < len(self)]:
            raise ValueError(f"tokens must lie in 0 .. {len(self) - 1}, got {bad[0]}")
        return "".join(self.alphabet[number] for number in numbers)


def split_blocks(
    n: int, block_size: int, *, held_out: float = 0.1, seed: int = 0
) -> tuple[list[slice], list[slice]]:
    """Cut positions 0 .. n-1 into blocks and hold some of them out, drawn from `seed`.

    Neighbouring training blocks are joined into runs; held-out blocks stay apart. Take blocks far
    longer than the context a model reads, or most of its held-out predictions lean on text next
    to what it was trained on. The last block may be short.

    Returns:
        The training slices and the held-out slices, each in order. They do not overlap and
        together they cover all n positions.

    Example:
        >>> split_blocks(10, 2, held_out=0.4, seed=1)
        ([slice(2, 8, None)], [slice(0, 2, None), slice(8, 10, None)])
    """
    if n < 1 or block_size < 1:
        raise ValueError(f"n and block_size must be 1 or more, got n={n}, block_size={block_size}")
    n_blocks = -(-n // block_size)
    n_held = _count_held_out(n_blocks, held_out, "blocks")
    order = torch.randperm(n_blocks, generator=torch.Generator().manual_seed(seed)).tolist()
    chosen = set(order[:n_held])
    train: list[slice] = []
    test: list[slice] = []
    for block in range(n_blocks):
        start, stop = block * block_size, min((block + 1) * block_size, n)
        if block in chosen:
            test.append(slice(start, stop))
        elif train and train[-1].stop == start:
            train[-1] = slice(train[-1].start, stop)
        else:
            train.append(slice(start, stop))
    return train, test


# ----------------------------------------------------------------------------------- pictures


def digits() -> tuple[Float[Tensor, "1797 8 8"], Int64[Tensor, " 1797"]]:
    """Handwritten digits of 8 x 8 pixels, each 0 (paper) .. 16 (ink), and which digit each is.

    Source:
        scikit-learn's copy of the UCI set "Optical Recognition of Handwritten Digits" (Alpaydin
        and Kaynak 1998). It is that set's test part; scikit-learn does not say who wrote which.

    Raises:
        ModuleNotFoundError: if scikit-learn is not installed.
    """
    bunch = _module(
        "sklearn.datasets",
        "the handwritten digits",
        "They come with scikit-learn: pip install scikit-learn",
    ).load_digits()
    images = torch.from_numpy(bunch.images.astype(np.float32))
    return images, torch.from_numpy(bunch.target.astype(np.int64))


def photograph() -> UInt8[np.ndarray, "height width 3"]:
    """A portrait of Grace Hopper, 600 pixels high and 512 wide, as red, green and blue 0 .. 255.

    Raises:
        ModuleNotFoundError: if matplotlib is not installed.
        FileNotFoundError: if this matplotlib came without its sample data.
    """
    advice = "It comes with matplotlib's wheel: pip install --force-reinstall matplotlib"
    matplotlib = _module("matplotlib", "the photograph", advice)
    image = _module("PIL.Image", "the reader of photographs", "It is Pillow: pip install pillow")
    path = Path(matplotlib.get_data_path(), "sample_data", "grace_hopper.jpg")
    if not path.exists():
        raise FileNotFoundError(f"the photograph is missing: no file {path}. {advice}")
    with image.open(path) as picture:
        return np.asarray(picture.convert("RGB"))


# -------------------------------------------------------------------------------------- dates

MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
ROMAN = ("I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII")

FIRST_DAY, LAST_DAY = date(1969, 1, 1), date(2068, 12, 31)
"""The hundred years that a two-digit year can mean, by POSIX's reading of %y: 69 is 1969."""

DATE_FORMATS = (
    "{month} {d}, {year}",  # March 4, 1998
    "{d} {month} {year}",  # 4 March 1998
    "{weekday}, {month} {d}, {year}",  # Wednesday, March 4, 1998
    "{wkd} {d} {mon} {year}",  # Wed 4 Mar 1998
    "the {nth} of {month}, {year}",  # the 4th of March, 1998
    "{month} {nth}, {year}",  # March 4th, 1998
    "{d} {mon} {yy}",  # 4 Mar 98
    "{mon} {d} '{yy}",  # Mar 4 '98
    "{dd}-{mon}-{yy}",  # 04-Mar-98
    "{m}/{d}/{year}",  # 3/4/1998: with slashes the month comes first
    "{dd}.{mm}.{year}",  # 04.03.1998: with dots the day comes first
    "{d}.{m}.{yy}",  # 4.3.98
    "{d} {roman} {year}",  # 4 III 1998
    "{year}{mm}{dd}",  # 19980304
)
"""Fourteen ways to write a date. No text that they can produce stands for two different days."""


def write_date(day: date, format: str = "{year}-{mm}-{dd}") -> str:
    """A day in one of `DATE_FORMATS`, or in any format with the same fields; ISO 8601 by default.

    Fields: {d} {dd} {nth}, {m} {mm} {mon} {month} {roman}, {yy} {year}, {wkd} {weekday}. Names are
    English whatever the computer's language.

    Raises:
        ValueError: if the format names another field, or shortens a year outside 1969-2068.

    Example:
        >>> write_date(date(1998, 3, 4)), write_date(date(1998, 3, 4), "the {nth} of {month}")
        ('1998-03-04', 'the 4th of March')
    """
    month, weekday = MONTHS[day.month - 1], WEEKDAYS[day.weekday()]
    fields = {
        "d": f"{day.day}", "dd": f"{day.day:02}", "nth": ordinal(day.day),
        "m": f"{day.month}", "mm": f"{day.month:02}", "mon": month[:3], "month": month,
        "roman": ROMAN[day.month - 1], "yy": f"{day.year % 100:02}", "year": f"{day.year:04}",
        "wkd": weekday[:3], "weekday": weekday,
    }  # fmt: skip
    try:
        written = format.format_map(fields)
        named = {field for _, field, _, _ in Formatter().parse(format)}
    except (AttributeError, KeyError, IndexError, TypeError, ValueError) as error:
        raise ValueError(
            f"format must use the fields {', '.join(fields)}, got {format!r}"
        ) from error
    if "yy" in named and not FIRST_DAY <= day <= LAST_DAY:
        raise ValueError(f"a two-digit year must lie in 1969-2068, got {day.year}")
    return written


def ordinal(number: int) -> str:
    """1st, 2nd, 3rd, 4th, ..., 11th, ..., 21st.

    Example:
        >>> [ordinal(number) for number in (1, 12, 22, 31)]
        ['1st', '12th', '22nd', '31st']
    """
    teen = number // 10 % 10 == 1
    suffix = "th" if teen else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{suffix}"


def split_days(
    first: date = FIRST_DAY, last: date = LAST_DAY, *, held_out: float = 0.1, seed: int = 0
) -> tuple[list[date], list[date]]:
    """The days from `first` to `last`, shuffled and split: days to train on, days held out.

    The split is by day, not by written date: a held-out day is unseen in every format.
    """
    n_days = (last - first).days + 1
    if n_days < 1:
        raise ValueError(f"first must not come after last, got {first} and {last}")
    n_held = _count_held_out(n_days, held_out, "days")
    order = torch.randperm(n_days, generator=torch.Generator().manual_seed(seed)).tolist()
    days = [first + timedelta(days=number) for number in order]
    return days[n_held:], days[:n_held]


def date_pairs(
    days: Iterable[date], formats: Sequence[str] = DATE_FORMATS
) -> list[tuple[str, str]]:
    """(as written, ISO 8601) for every day in every format.

    Example:
        >>> date_pairs([date(1998, 3, 4)], ["{d} {mon} {yy}", "{d}.{m}.{yy}"])
        [('4 Mar 98', '1998-03-04'), ('4.3.98', '1998-03-04')]
    """
    return [(write_date(day, format), write_date(day)) for day in days for format in formats]


# ------------------------------------------------------------------------------------- helpers


def _module(name: str, what: str, advice: str) -> ModuleType:
    """Import a source of data when it is asked for, or say which package gives it."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not name.startswith(error.name):
            raise  # the package is there; something that it needs itself is not
        raise ModuleNotFoundError(
            f"{what} is missing: no module {name}. {advice}", name=error.name
        ) from error


def _count_held_out(n: int, held_out: float, what: str) -> int:
    n_held = round(n * held_out)
    if not 0 < n_held < n:
        raise ValueError(
            f"held_out must leave {what} on both sides, got held_out={held_out} of {n} {what}"
        )
    return n_held
