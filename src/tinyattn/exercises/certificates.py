"""What several chapters ask of an answer that is neither compared with a function nor a value."""

from __future__ import annotations

import copy
from typing import Any

from torch import Tensor

from tinyattn.exercises.base import OPEN, Verdict, as_numbers, attempt, has_gap, kind, plain
from tinyattn.exercises.base import wrong as is_wrong


def returned(answer: Any, *arguments: Any) -> Any:
    """What the reader's function returns, or the verdict if it returns nothing or fails."""
    if has_gap(answer):
        return OPEN
    if not callable(answer):
        return is_wrong("a function is wanted")
    result, error = attempt(answer, *copy.deepcopy(arguments))
    if isinstance(error, NotImplementedError):
        return OPEN
    if error is not None:
        return is_wrong(f"your function raised {type(error).__name__}: {error}")
    return OPEN if has_gap(result) else result


def made(answer: Any) -> Any:
    """What the reader has made, as a value or as a function that returns it, or the verdict."""
    return returned(answer) if callable(answer) or has_gap(answer) else answer


def whole_list(value: Any) -> list[int] | None:
    """The value as a list of whole numbers, or None; texts, bools and dicts hold no numbers."""
    if isinstance(value, dict):
        return None
    parts, _ = attempt(lambda: plain(list(value)))
    if parts is None or any(isinstance(part, (str, bytes, bool)) for part in parts):
        return None
    try:
        numbers = [float(number) for number in parts]
        return [int(number) for number in numbers] if all(n == int(n) for n in numbers) else None
    except (TypeError, ValueError, OverflowError, RuntimeError):
        return None


def vector(value: Any, d: int) -> Tensor | Verdict:
    """The value as d finite float32 numbers, or what is wrong with it."""
    numbers = as_numbers(value)
    if numbers is None:
        return is_wrong(f"one vector of {d} numbers is wanted, got {kind(value)}")
    if numbers.shape != (d,):
        return is_wrong(f"one vector of {d} numbers is wanted, got {tuple(numbers.shape)}")
    numbers = numbers.float()
    if not numbers.isfinite().all():
        return is_wrong(f"the vector must be finite, got {numbers.tolist()}")
    return numbers
