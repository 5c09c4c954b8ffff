"""Exercises that check themselves: `check` in the book, `grade` where marks are given.

Each module holds the exercises of one chapter. Their texts, stubs, hints and solutions stand in the
notebooks of book/exercises; what is here decides whether an answer is right, and names the mistake.
"""

from tinyattn.exercises.base import Exercise, Verdict
from tinyattn.exercises.run import CHAPTERS, check, exercise, exercises, grade, progress

__all__ = ["CHAPTERS", "Exercise", "Verdict", "check", "exercise", "exercises", "grade", "progress"]
