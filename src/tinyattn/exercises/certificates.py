"""What several chapters ask of an answer that is neither compared with a function nor a value."""

from __future__ import annotations

import copy
from typing import Any

from tinyattn.exercises.base import OPEN
from tinyattn.exercises.base import wrong as is_wrong


def returned(answer: Any, *arguments: Any) -> Any:
    """What the reader's function returns, or the verdict if it returns nothing or fails."""
    if answer is ... or answer is None:
        return OPEN
    if not callable(answer):
        return is_wrong("a function is wanted")
    try:
        result = answer(*copy.deepcopy(arguments))
    except NotImplementedError:
        return OPEN
    except Exception as error:
        return is_wrong(f"your function raised {type(error).__name__}: {error}")
    return OPEN if result is None or result is ... else result


def made(answer: Any) -> Any:
    """What the reader has made, as a value or as a function that returns it, or the verdict."""
    return returned(answer) if callable(answer) or answer is ... or answer is None else answer


def whole_list(value: Any) -> list[int] | None:
    """The value as a list of whole numbers, or None."""
    try:
        numbers = [float(number) for number in value]
        return [int(number) for number in numbers] if all(n == int(n) for n in numbers) else None
    except (TypeError, ValueError, OverflowError):
        return None
