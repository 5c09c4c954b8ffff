"""An exhibit is a function with its known defects; a reader's test is scored by those it kills."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from tinyattn.exercises.base import attempt, has_gap, quoted


@dataclass(frozen=True)
class Bug:
    """A defect: what it does wrong in a sentence, and the function that has it."""

    says: str
    function: Callable[..., Any] = field(repr=False)


@dataclass(frozen=True)
class Exhibit:
    """A function as it should be, and as it was written.

    Args:
        name: `score` is called with it.
        title: as the appendix has it.
        good: the function without a defect; its docstring is the specification.
        bugs: defects, the one that is shown first.
        link: a public thread that reports a defect of this kind.
    """

    name: str
    title: str
    good: Callable[..., Any] = field(repr=False)
    bugs: tuple[Bug, ...] = field(repr=False)
    link: str = field(repr=False)

    @property
    def shown(self) -> str:
        """The source of the function that readers are given, under the good one's name."""
        source = textwrap.dedent(inspect.getsource(self.bugs[0].function))
        return source.replace(
            f"def {self.bugs[0].function.__name__}(", f"def {self.good.__name__}("
        )


def score(exhibit: Exhibit, test: object) -> str:
    """How a test does: it must accept the good function and raise for each defect.

    Args:
        exhibit: what is tested.
        test: called with one function at a time; None, `...` or a test that returns `...` was not
            attempted.
    """
    if has_gap(test):
        return f"Not attempted yet: {exhibit.name}"
    failure, returned = _outcome(test, exhibit.good)
    if returned is ...:
        return f"Not attempted yet: {exhibit.name}"
    if failure is not None:
        return (
            "Not yet: your test rejects the function without a defect "
            f"({type(failure).__name__}: {str(failure).splitlines()[0] if str(failure) else ''})."
        )
    alive = [bug for bug in exhibit.bugs if _outcome(test, bug.function)[0] is None]
    n_killed = len(exhibit.bugs) - len(alive)
    if not n_killed and returned is not None:
        return (
            f"Not yet: your test returns {quoted(returned)} and raises nothing, so it kills 0 of "
            f"{len(exhibit.bugs)} defects. What a test only returns, nobody reads: `assert` it."
        )
    if alive:
        return (
            f"Not yet: your test kills {n_killed} of {len(exhibit.bugs)} defects. One is alive: "
            f"{alive[0].says}."
        )
    return f"Right: {exhibit.name}. All {n_killed} defects are killed, and the good one passes."


def _outcome(
    test: Callable[[Callable], object], function: Callable
) -> tuple[BaseException | None, Any]:
    """What the test raised for a function, and what it returned."""
    with torch.random.fork_rng(devices=[]):  # the same draws for each function
        torch.manual_seed(0)
        returned, failure = attempt(test, function)
        return failure, returned
