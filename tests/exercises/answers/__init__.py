"""Answers to every exercise, right ones and wrong ones, written without looking at the checks.

A module for each chapter, each with a dict ANSWERS from the exercise's name to its answers.
"""

from dataclasses import dataclass
from importlib import import_module
from typing import Any

from tinyattn.exercises import CHAPTERS


@dataclass(frozen=True)
class Answers:
    """Two or more right answers, and four or more wrong ones, each with words of its verdict."""

    right: tuple[Any, ...]
    wrong: tuple[tuple[str, Any], ...]


def answers() -> dict[str, Answers]:
    found: dict[str, Answers] = {}
    for chapter in CHAPTERS:
        found |= import_module(f"{__name__}.{chapter}").ANSWERS
    return found
