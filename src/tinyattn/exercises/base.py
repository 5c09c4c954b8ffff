"""What an exercise is, and the two questions that most checks ask: of a function, of a value."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Literal

import torch
from torch import Tensor

KINDS = ("predict", "implement", "break", "measure", "prove")
LARGEST_PICTURE = 32  # queries or keys
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
    right. Otherwise the first case with a difference is described: shape first, then values. A
    function that returns None or `...`, or raises NotImplementedError, was not attempted.
    """
    if answer is ... or answer is None:
        return OPEN
    if not callable(answer):
        return wrong(f"a function is wanted, this is {_kind(answer)}")
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
    if not _attempted(answer) or (isinstance(answer, (list, tuple)) and ... in answer):
        return OPEN
    if isinstance(answer, dict) and any(value is ... for value in answer.values()):
        return OPEN
    problem = _difference(answer, wanted, tolerance)
    if problem is None:
        return RIGHT
    for mistake in mistakes:
        if _difference(answer, mistake.answer, tolerance) is None:
            return wrong(mistake.says)
    return wrong(_without_the_answer(answer, wanted))


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
    if not isinstance(answer, dict) or set(answer) != set(wanted) or ... in answer.values():
        return of_value(answer, wanted)
    for key, value in wanted.items():
        verdict = of_value(answer[key], value, mistakes.get(key, ()), tolerance=tolerance)
        if verdict.state != "right":
            return verdict if verdict.state == "open" else wrong(f"{key}: {verdict.says}")
    return RIGHT


def _attempted(answer: Any) -> bool:
    return answer is not None and answer is not ...


def _starts(answer: Callable, case: Case) -> bool:
    """Whether the function does anything at all with its first case."""
    try:
        return _attempted(answer(*copy.deepcopy(case)))
    except NotImplementedError:
        return False
    except Exception:
        return True  # it fails, and that is said with the inputs


def _call(answer: Callable, case: Case) -> tuple[Any, str | None]:
    """What the answer returns for a case, and what went wrong in calling it."""
    given = copy.deepcopy(case)
    try:
        got = answer(*given)
    except Exception as error:
        return None, f"your function raised {type(error).__name__}: {error}"
    if not _attempted(got):
        return None, "your function returned nothing; end it with `return`"
    for number, (before, after) in enumerate(zip(case, given, strict=True), start=1):
        if _difference(after, before, 0.0):
            return got, f"your function changed its input number {number}; work on a copy"
    return got, None


def _named(mistakes: Sequence[Mistake], tried: list[tuple[Case, Any]], tolerance: float) -> str:
    """The sentence of the first mistake that explains what was returned for every case."""
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
    if isinstance(wanted, (str, bool)) and not isinstance(got, Tensor):
        return None if got == wanted and type(got) is type(wanted) else f"got {got!r}"
    if isinstance(wanted, dict):
        if not isinstance(got, dict) or set(got) != set(wanted):
            return f"a dict with the keys {', '.join(map(repr, wanted))} is wanted, got {got!r}"
        return _first(_difference(got[key], wanted[key], tolerance) for key in wanted)
    if isinstance(wanted, (tuple, list)) and any(
        not isinstance(part, (int, float)) for part in wanted
    ):
        if not isinstance(got, (tuple, list)) or len(got) != len(wanted):
            return f"{len(wanted)} results are wanted, got {_kind(got)}"
        pairs = zip(got, wanted, strict=True)
        return _first(_difference(g, w, tolerance) for g, w in pairs)
    if isinstance(wanted, (int, float, tuple, list, Tensor)):
        return _numbers(got, wanted, tolerance)
    return None if got == wanted else f"got {got!r}"


def _first(found: Iterable[str | None]) -> str | None:
    return next((problem for problem in found if problem), None)


def _numbers(got: Any, wanted: Any, tolerance: float) -> str | None:
    try:
        got_tensor = torch.as_tensor(got).detach()
    except (TypeError, ValueError, RuntimeError):
        return f"numbers are wanted, got {_kind(got)}"
    wanted_tensor = torch.as_tensor(wanted)
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


def _number(value: Tensor) -> str:
    number = value.item()
    return f"{number:.4g}" if math.isfinite(number) else str(number)


def _shape(value: Tensor) -> str:
    return str(tuple(value.shape)) if value.dim() else "that of a single number"


def _kind(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"a tensor of shape {tuple(value.shape)}"
    return f"{value!r} ({type(value).__name__})"


def _words(case: Case) -> str:
    """The arguments of a call, short enough for a sentence."""

    def word(value: Any) -> str:
        if isinstance(value, Tensor):
            return f"a {'mask' if value.dtype == torch.bool else 'tensor'} of {tuple(value.shape)}"
        if callable(value):
            return getattr(value, "__name__", repr(value))
        return value if isinstance(value, str) else repr(value)

    return ", ".join(word(value) for value in case) or "no arguments"


def _without_the_answer(answer: Any, wanted: Any) -> str:
    """What can be said of a wrong value without telling the right one."""
    if isinstance(wanted, (int, float)) and not isinstance(wanted, bool):
        try:
            side = "small" if float(answer) < wanted else "large"
        except (TypeError, ValueError):
            return f"a number is wanted, got {_kind(answer)}"
        return f"{answer} is too {side}"
    if isinstance(wanted, (tuple, list)):
        if not isinstance(answer, (tuple, list)):
            return f"a list of {len(wanted)} entries is wanted, got {_kind(answer)}"
        if len(answer) != len(wanted):
            return f"{len(wanted)} entries are wanted, got {len(answer)}"
        bad = [
            str(number)
            for number, (g, w) in enumerate(zip(answer, wanted, strict=True), start=1)
            if _difference(g, w, 1e-6)
        ]
        return f"not right yet: entry {', '.join(bad)}"
    if isinstance(wanted, dict):
        if not isinstance(answer, dict) or set(answer) != set(wanted):
            keys = ", ".join(map(repr, wanted))
            return f"a dict with the keys {keys} is wanted, got {_kind(answer)}"
        bad = [repr(key) for key in wanted if _difference(answer[key], wanted[key], 1e-6)]
        return f"not right yet: {', '.join(bad)}"
    return f"{answer!r} is not it"


def _picture(value: Any) -> Any:
    """The value, if it is a mask that fits a picture."""
    is_mask = isinstance(value, Tensor) and value.dtype == torch.bool and value.dim() == 2
    return value if is_mask and 0 < max(value.shape) <= LARGEST_PICTURE else None
