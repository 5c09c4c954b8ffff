"""One fault: a line of the package, the same line broken, and the test that must find it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    what: str
    file: str  # below src/tinyattn
    old: str  # stands there once
    new: str
    test: str  # below tests
