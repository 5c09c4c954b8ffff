"""The bug museum: functions with defects that public code had, for readers to write tests against."""

from __future__ import annotations

from tinyattn.exercises.museum import base, decoding, layers, masks
from tinyattn.exercises.museum.base import Bug, Exhibit

EXHIBITS: tuple[Exhibit, ...] = (*masks.EXHIBITS, *layers.EXHIBITS, *decoding.EXHIBITS)

__all__ = ["EXHIBITS", "Bug", "Exhibit", "exhibit", "score"]


def exhibit(name: str) -> Exhibit:
    """The exhibit with this name.

    Raises:
        ValueError: if there is none; the message lists those that exist.
    """
    found = {one.name: one for one in EXHIBITS}
    if name not in found:
        raise ValueError(f"the museum has {', '.join(found)}, got {name!r}")
    return found[name]


def score(name: str, test: object) -> None:
    """Say how many defects a test kills, and whether it lets the good function pass.

    Args:
        name: of the exhibit.
        test: takes a function like the exhibit's and raises if it finds a defect.

    Raises:
        ValueError: if there is no such exhibit.

    Example:
        >>> score("window", lambda window_mask: None)
        Not yet: your test kills 0 of 4 defects. One is alive: it allows w keys with the query's own among them, one too few.
    """
    print(base.score(exhibit(name), test))
