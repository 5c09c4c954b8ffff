"""`check` for readers and `grade` for marks: find the exercise, examine the answer, say it."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import torch

from tinyattn.exercises.base import OPEN, Exercise, Verdict, attempt, has_gap, kind, quoted, wrong
from tinyattn.exercises.pictures import draw
from tinyattn.exercises.state import first_state
from tinyattn.show import Checklist

# Chapters with exercises, in the book's order: each is a module of this package.
CHAPTERS = {
    "attention": "Attention",
    "transformer": "What stands around attention",
    "usage": "Three ways to use it",
    "complexity": "What attention costs",
    "comparison": "Attention beside other layers",
    "taxonomy": "Six ways to change one matrix",
    "atomic": "Five atoms of sparse attention",
    "compound": "Patterns from patterns",
    "extended": "Patterns that know the shape of their data",
    "lsh": "Attention by hashing",
    "clustering": "Meeting in clusters",
    "learned": "Connections that are learned",
}
SEEN_SEED = 0  # of the inputs that `check` draws; marks are given with others


def exercises(chapter: str) -> tuple[Exercise, ...]:
    """The exercises of a chapter, in the order of its notebook.

    Raises:
        ValueError: if there is no such chapter.

    Example:
        >>> [exercise.name for exercise in exercises("attention")][0]
        'attention/row'
    """
    if chapter not in CHAPTERS:
        raise ValueError(f"chapter must be one of {', '.join(CHAPTERS)}, got {chapter!r}")
    return import_module(f"tinyattn.exercises.{chapter}").EXERCISES


def exercise(name: str) -> Exercise:
    """The exercise with this name.

    Raises:
        ValueError: if there is none; the message lists those of the chapter.
    """
    chapter = name.split("/")[0] if isinstance(name, str) else ""
    found = {one.name: one for one in exercises(chapter)}
    if name not in found:
        raise ValueError(f"{chapter} has the exercises {', '.join(found)}, got {name!r}")
    return found[name]


def progress(*chapters: str) -> Checklist:
    """A list of exercises to tick off, which the reader's browser remembers.

    Args:
        chapters: of these only; of all if none is named, with buttons to save, load and forget.

    Raises:
        ValueError: if there is no such chapter.

    Example:
        >>> print(repr(progress("attention")).splitlines()[2])
            [ ] 1. Another question to the same keys
    """
    found = {chapter: exercises(chapter) for chapter in chapters or CHAPTERS}
    groups = {
        CHAPTERS[chapter]: {
            one.name: f"{number}. {one.title}" for number, one in enumerate(several, 1)
        }
        for chapter, several in found.items()
    }
    links = {
        one.name: f"exercises/{chapter}.html#exercise-{list(CHAPTERS).index(chapter) + 1}-{number}"
        for chapter, several in found.items()
        for number, one in enumerate(several, 1)
    }
    return Checklist("Exercises that you have solved", groups, overview=not chapters, links=links)


def check(name: str, answer: Any) -> None:
    """Say whether an answer is right, and if it is not, which mistake it looks like.

    Nothing is raised for a wrong or missing answer, so that a notebook runs from top to bottom.
    Masks and curves are drawn, wanted beside yours.

    Args:
        name: of the exercise, "attention/row".
        answer: the function or value that the exercise asks for.

    Raises:
        ValueError: if there is no such exercise.

    Example:
        >>> check("attention/row", ...)
        Not attempted yet: attention/row
    """
    one = exercise(name)
    verdict = _examine(one, answer, SEEN_SEED)
    print(sentence(one, verdict))
    if verdict.wanted is not None:
        draw(verdict)


def grade(name: str, answer: Any, seed: int) -> None:
    """Examine an answer on the inputs of another seed; silent if it is right.

    Raises:
        AssertionError: if the answer is wrong or missing, with the sentence that `check` prints.
        ValueError: if there is no such exercise.
    """
    one = exercise(name)
    verdict = _examine(one, answer, seed)
    if verdict.state != "right":
        raise AssertionError(sentence(one, verdict))


def _examine(one: Exercise, answer: Any, seed: int) -> Verdict:
    """The verdict; an answer on which its check fails is of a kind that nobody expected."""
    with first_state(seed):
        unfinished, error = attempt(has_gap, answer)
        if unfinished:
            return OPEN
        if error is None:
            verdict, error = attempt(one.examine, answer, torch.Generator().manual_seed(seed))
    if error is None:
        return verdict
    return wrong(
        f"this is an unexpected answer, {kind(answer)}; reading it failed with "
        f"{type(error).__name__}: {quoted(error, str)}"
    )


def sentence(one: Exercise, verdict: Verdict) -> str:
    if verdict.state == "open":
        return f"Not attempted yet: {one.name}"
    if verdict.state == "right":
        return f"Right: {one.name}. {verdict.says or one.after}".rstrip()
    return f"Not yet: {verdict.says}."
