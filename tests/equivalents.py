"""Changes of the package that change nothing, and why no test can see them.

tools/mutants.py tries small changes and lists those that the tests did not see. Each is either a
test that is missing or one of these.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Equivalent:
    """A line of a module, what was made of it, and why both do the same."""

    file: str
    old: str
    new: str
    why: str


EQUIVALENTS: list[Equivalent] = []
