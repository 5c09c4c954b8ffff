"""What an exercise is, and the two questions that most checks ask: of a function, of a value."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import chain
from numbers import Real
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from tinyattn.exercises.state import kept_state

KINDS = ("predict", "implement", "break", "measure", "prove")
LARGEST_PICTURE = 32  # queries or keys
LONGEST_QUOTE = 200  # letters of an answer that a sentence repeats
ONE_MAXIMUM = (
    "one maximum for all rows: a row far below it underflows to 0 / 0; subtract each row's own"
)
TOLERANCE = 1e-4  # of float32 answers: far above rounding, far below any mistake that is named


@dataclass(frozen=True)
class Verdict:
    """What a check found.

    Args:
        state: "right", "wrong" or "open" (not attempted).
        says: the mistake in a sentence; for a right answer, what may be said on top.
        wanted, got: two masks (bool matrices) or two curves (dicts of lists) to draw side by side.
    """

    state: Literal["right", "wrong", "open"]
    says: str = ""
    wanted: Any = None
    got: Any = None


RIGHT = Verdict("right")
OPEN = Verdict("open")


def wrong(says: str, wanted: Any = None, got: Any = None) -> Verdict:
    return Verdict("wrong", says, wanted, got)


def attempt(function: Callable[..., Any], *arguments: Any) -> tuple[Any, BaseException | None]:
    """What a call returns, and what it raised: anything but the reader's own Ctrl-C.

    `sys.exit` and `pytest.fail` raise what is no Exception, and are failures like others. What the
    function has set in torch is set back, for it would hold for what its result is compared with.
    """
    try:
        with kept_state():
            return function(*arguments), None
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return None, error


def has_gap(answer: Any, *, blank: bool = False) -> bool:
    """Whether `...` stands for the answer or anywhere inside its lists, tuples, sets and dicts.

    Args:
        answer: anything.
        blank: count a None inside as well; None for the whole answer always counts.
    """

    def gap(value: Any) -> bool:
        if isinstance(value, dict):
            return any(map(gap, value.values()))
        if isinstance(value, (list, tuple, set, frozenset)):
            return any(map(gap, value))
        return value is ... or (blank and value is None)

    return answer is None or gap(answer)


@dataclass(frozen=True)
class Exercise:
    """One exercise: what it is worth and how an answer is examined.

    Args:
        name: chapter and name, "attention/scores"; `check` is called with it.
        title: as the notebook's heading has it.
        kind: what the reader does: predict, implement, break, measure or prove.
        difficulty: 1 follows the chapter, 2 needs a thought of one's own, 3 several.
        minutes: for a reader who has understood the chapter.
        points: in an assignment.
        goal: what one can do afterwards, "Apply a mask before the softmax".
        examine: given the answer and a seeded generator for its inputs, the verdict.
        after: one sentence for a right answer: what it shows.
        drawn: whether `examine` draws its inputs; if not, another seed examines the same again.
    """

    name: str
    title: str
    kind: Literal["predict", "implement", "break", "measure", "prove"]
    difficulty: int
    minutes: int
    points: int
    goal: str
    examine: Callable[[Any, torch.Generator], Verdict] = field(repr=False)
    after: str = ""
    drawn: bool = True

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"kind must be one of {', '.join(KINDS)}, got {self.kind!r}")
        if self.difficulty not in (1, 2, 3):
            raise ValueError(f"difficulty must be 1, 2 or 3, got {self.difficulty}")
        if self.minutes < 1 or self.points < 2:
            raise ValueError(
                f"{self.name} needs a minute or more and two points or more (one for the check that "
                f"is seen, the others for the hidden one), got {self.minutes} and {self.points}"
            )

    @property
    def line(self) -> str:
        """The line below the heading: kind, difficulty, minutes, points."""
        return (
            f"*{self.kind.capitalize()} · difficulty {self.difficulty} of 3 · about "
            f"{self.minutes} minutes · {self.points} points*"
        )


@dataclass(frozen=True)
class Mistake:
    """A wrong answer that people give, as a function or a value, and the sentence that names it."""

    says: str
    answer: Any


Case = Sequence[Any]  # the arguments of one call


def of_function(
    answer: Any,
    wanted: Callable[..., Any],
    cases: Iterable[Case],
    mistakes: Sequence[Mistake] = (),
    *,
    tolerance: float = TOLERANCE,
) -> Verdict:
    """Does the answer return what `wanted` returns, on every case, without touching its inputs?

    A known mistake is named when it explains the answer on every case where the answer is wrong or
    right, unless the answer raises on all of them: then its own error is said. Otherwise the first case with a difference is described: shape first, then values. A
    function that returns None or `...`, or raises NotImplementedError, was not attempted.
    """
    if has_gap(answer):
        return OPEN
    if not callable(answer):
        return wrong(f"a function is wanted, this is {kind(answer)}")
    cases = iter(cases)
    first = next(cases)
    if not _starts(answer, first):
        return Verdict("open", wanted=_picture(wanted(*copy.deepcopy(first))))
    tried = [(case, *_call(answer, case)) for case in chain([first], cases)]
    problems = [
        (case, got, problem or _difference(got, wanted(*copy.deepcopy(case)), tolerance))
        for case, got, problem in tried
    ]
    found = next(((case, got, problem) for case, got, problem in problems if problem), None)
    if found is None:
        return RIGHT
    case, got, problem = found
    says = _named(mistakes, [(case, got) for case, got, _ in tried], tolerance)
    says = says or f"for {_words(case)}: {problem}"
    picture = _picture(wanted(*copy.deepcopy(case)))
    same = _picture(got) is not None and picture is not None and got.shape == picture.shape
    return wrong(says, picture, got) if same else wrong(says)


def of_value(
    answer: Any,
    wanted: Any,
    mistakes: Sequence[Mistake] = (),
    *,
    tolerance: float = 1e-6,
) -> Verdict:
    """Is the answer this number, word, bool, or list, tuple, dict or tensor of those?

    Whole numbers may come as floats or tensors of one element, tuples as lists.
    """
    if has_gap(answer, blank=True):
        return OPEN
    problem = _difference(answer, wanted, tolerance)
    if problem is None:
        return RIGHT
    for mistake in mistakes:
        if _difference(answer, mistake.answer, tolerance) is None:
            return wrong(mistake.says)
    return wrong(_without_the_answer(answer, wanted, tolerance))


def of_parts(
    answer: Any,
    wanted: dict[str, Any],
    mistakes: dict[str, Sequence[Mistake]],
    *,
    tolerance: float = 1e-6,
) -> Verdict:
    """Is every part of the answer right? The first that is not is named, with its own mistakes.

    Args:
        answer: a dict with the keys of `wanted`.
        wanted: the right value of each part, in the order in which they are worked out.
        mistakes: for some parts, known mistakes.
    """
    if not isinstance(answer, dict) or set(answer) != set(wanted) or has_gap(answer):
        return of_value(answer, wanted)
    for key, value in wanted.items():
        verdict = of_value(answer[key], value, mistakes.get(key, ()), tolerance=tolerance)
        if verdict.state != "right":
            return verdict if verdict.state == "open" else wrong(f"{key}: {verdict.says}")
    return RIGHT


def _starts(answer: Callable, case: Case) -> bool:
    """Whether the function does anything at all with its first case."""
    got, error = attempt(answer, *copy.deepcopy(case))
    if error is not None:  # a failure is said with the inputs
        return not isinstance(error, NotImplementedError)
    return not has_gap(got)


def _call(answer: Callable, case: Case) -> tuple[Any, str | None]:
    """What the answer returns for a case, and what went wrong in calling it."""
    given = copy.deepcopy(case)
    got, error = attempt(answer, *given)
    if error is not None:
        return None, f"your function raised {type(error).__name__}: {error}"
    if has_gap(got):
        return None, "your function returned nothing; end it with `return`"
    for number, (before, after) in enumerate(zip(case, given, strict=True), start=1):
        if _difference(after, before, 0.0):
            return got, f"your function changed its input number {number}; work on a copy"
    return got, None


def _named(mistakes: Sequence[Mistake], tried: list[tuple[Case, Any]], tolerance: float) -> str:
    """The sentence of the first mistake that explains what was returned for every case.

    An answer that raises for every case is explained by its own error.
    """
    if all(got is None for _, got in tried):
        return ""
    for mistake in mistakes:
        if all(_explains(mistake, case, got, tolerance) for case, got in tried):
            return mistake.says
    return ""


def _explains(mistake: Mistake, case: Case, got: Any, tolerance: float) -> bool:
    try:
        return _difference(got, mistake.answer(*copy.deepcopy(case)), tolerance) is None
    except Exception:
        return got is None  # both fail


def _difference(got: Any, wanted: Any, tolerance: float) -> str | None:
    """How an answer differs, shape first, or None. NaN equals NaN, infinities equal themselves."""
    got = plain(got)
    if isinstance(wanted, str) or (isinstance(wanted, bool) and not isinstance(got, Tensor)):
        same = isinstance(got, type(wanted)) and got == wanted
        return None if same else f"got {quoted(got)}"
    if isinstance(wanted, dict):
        if not isinstance(got, dict) or set(got) != set(wanted):
            keys = ", ".join(map(repr, wanted))
            return f"a dict with the keys {keys} is wanted, got {quoted(got)}"
        return _first(_difference(got[key], wanted[key], tolerance) for key in wanted)
    if isinstance(wanted, (tuple, list)) and any(
        not isinstance(part, (int, float)) for part in wanted
    ):
        if not isinstance(got, (tuple, list)) or len(got) != len(wanted):
            return f"{len(wanted)} results are wanted, got {kind(got)}"
        pairs = zip(got, wanted, strict=True)
        return _first(_difference(g, w, tolerance) for g, w in pairs)
    if isinstance(wanted, (int, float, tuple, list, Tensor)):
        return _numbers(got, wanted, tolerance)
    return None if got == wanted else f"got {quoted(got)}"


def _first(found: Iterable[str | None]) -> str | None:
    return next((problem for problem in found if problem), None)


def _numbers(got: Any, wanted: Any, tolerance: float) -> str | None:
    got_tensor, wanted_tensor = as_numbers(got), torch.as_tensor(wanted)
    numeric = wanted_tensor.dtype != torch.bool and not _holds_bool(wanted)
    if got_tensor is None or (numeric and _holds_bool(got)):
        return f"numbers are wanted, got {kind(got)}"
    if not isinstance(wanted, Tensor) and got_tensor.numel() == 1 and wanted_tensor.numel() == 1:
        got_tensor = got_tensor.reshape(wanted_tensor.shape)
    if got_tensor.shape != wanted_tensor.shape:
        return f"the shape is {_shape(got_tensor)}, it should be {_shape(wanted_tensor)}"
    if (got_tensor.dtype == torch.bool) != (wanted_tensor.dtype == torch.bool):
        return f"the dtype is {got_tensor.dtype}, it should be {wanted_tensor.dtype}"
    a, b = got_tensor.double(), wanted_tensor.double()
    apart = ~torch.isclose(a, b, rtol=tolerance, atol=tolerance, equal_nan=True)
    if not apart.any():
        return None
    place = tuple(apart.nonzero()[0].tolist())
    where = f"at {list(place)} " if place else ""
    n_apart = (
        f" ({int(apart.sum())} of {apart.numel()} entries differ)" if apart.numel() > 1 else ""
    )
    return f"{where}yours is {_number(a[place])}, wanted is {_number(b[place])}{n_apart}"


def plain(value: Any) -> Any:
    """Fractions, Decimals and numpy's scalars as Python's own, also inside lists and tuples."""
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    if isinstance(value, np.generic):
        return plain(value.item()) if type(value.item()) is not type(value) else value
    if isinstance(value, int):
        return value if abs(value) < 2**63 else _as_float(value)
    return _as_float(value) if isinstance(value, (Real, Decimal)) else value


def _as_float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def as_numbers(value: Any) -> Tensor | None:
    """The value as a dense tensor of real numbers or bools without gradient, or None."""
    found, error = attempt(lambda: _as_tensor(plain(value)).detach().to_dense().cpu())
    return None if error is not None or found.is_complex() else found


def _as_tensor(value: Any) -> Tensor:
    if isinstance(value, np.ndarray):  # a copy, whatever its strides and whoever may write to it
        value = plain(value.tolist()) if value.dtype == object else torch.from_numpy(value.copy())
    if isinstance(value, list) and any(isinstance(part, (Tensor, np.ndarray)) for part in value):
        return torch.stack([_as_tensor(part) for part in value])
    return torch.as_tensor(value)


def _holds_bool(value: Any) -> bool:
    """Whether True or False stands where numbers may be; a tensor says so by its dtype."""
    return isinstance(value, bool) or (
        isinstance(value, (list, tuple)) and any(map(_holds_bool, value))
    )


def _number(value: Tensor) -> str:
    number = value.item()
    return f"{number:.4g}" if math.isfinite(number) else str(number)


def _shape(value: Tensor) -> str:
    return str(tuple(value.shape)) if value.dim() else "that of a single number"


def kind(value: Any) -> str:
    """What a value is, in the words of a hint."""
    if isinstance(value, Tensor):
        return f"a tensor of shape {tuple(value.shape)}"
    return f"{quoted(value)} ({type(value).__name__})"


def quoted(value: Any, write: Callable[[Any], str] = repr) -> str:
    """The value as Python writes it, cut short; its type if it cannot be written."""
    text, error = attempt(write, value)
    if error is not None:
        return f"something of type {type(value).__name__}"
    return text if len(text) <= LONGEST_QUOTE else f"{text[:LONGEST_QUOTE]}…"


def _words(case: Case) -> str:
    """The arguments of a call, short enough for a sentence."""

    def word(value: Any) -> str:
        if isinstance(value, Tensor):
            return f"a {'mask' if value.dtype == torch.bool else 'tensor'} of {tuple(value.shape)}"
        if callable(value):
            return getattr(value, "__name__", repr(value))
        return value if isinstance(value, str) else repr(value)

    return ", ".join(word(value) for value in case) or "no arguments"


def _without_the_answer(answer: Any, wanted: Any, tolerance: float) -> str:
    """What can be said of a wrong value without telling the right one."""
    if isinstance(wanted, (int, float)) and not isinstance(wanted, bool):
        number = None if isinstance(answer, (list, tuple)) else as_numbers(answer)
        if number is None or number.dtype == torch.bool or number.numel() != 1 or number.isnan():
            return f"a number is wanted, got {kind(answer)}"
        side = "small" if number.item() < wanted else "large"
        return f"{quoted(answer, str)} is too {side}"
    if isinstance(wanted, (tuple, list)):
        if not isinstance(answer, (tuple, list)):
            return f"a list of {len(wanted)} entries is wanted, got {kind(answer)}"
        if len(answer) != len(wanted):
            return f"{len(wanted)} entries are wanted, got {len(answer)}"
        bad = [
            str(number)
            for number, (g, w) in enumerate(zip(answer, wanted, strict=True), start=1)
            if _difference(g, w, tolerance)
        ]
        return f"not right yet: entry {', '.join(bad)}"
    if isinstance(wanted, dict):
        if not isinstance(answer, dict) or set(answer) != set(wanted):
            keys = ", ".join(map(repr, wanted))
            return f"a dict with the keys {keys} is wanted, got {kind(answer)}"
        bad = [repr(key) for key in wanted if _difference(answer[key], wanted[key], tolerance)]
        return f"not right yet: {', '.join(bad)}"
    return f"{quoted(answer)} is not it"


def _picture(value: Any) -> Any:
    """The value, if it is a mask that fits a picture."""
    is_mask = isinstance(value, Tensor) and value.dtype == torch.bool and value.dim() == 2
    return value if is_mask and 0 < max(value.shape) <= LARGEST_PICTURE else None
