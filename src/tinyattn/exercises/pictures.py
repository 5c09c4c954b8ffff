"""Wanted beside yours: two masks or two curves in one figure."""

from __future__ import annotations

import matplotlib.pyplot as plt
import torch

from tinyattn.exercises.base import Verdict
from tinyattn.show import curves, describe_mask, draw_mask, show, style


def draw(verdict: Verdict) -> None:
    """Show what is wanted, and beside it what came, with the differences in words."""
    if verdict.got is None:
        mask = verdict.wanted
        show(draw_mask(mask, title="wanted"), f"The mask that is wanted. {describe_mask(mask)}")
    elif isinstance(verdict.wanted, dict):
        _draw_curves(verdict.wanted, verdict.got)
    else:
        _draw_masks(verdict.wanted, verdict.got)


def _draw_masks(wanted: torch.Tensor, got: torch.Tensor) -> None:
    with style():
        fig, axes = plt.subplots(1, 2, figsize=(6, 3))
    draw_mask(wanted, title="wanted", ax=axes[0])
    draw_mask(got, title="yours", ax=axes[1])
    missing = (wanted & ~got).nonzero().tolist()
    extra = (got & ~wanted).nonzero().tolist()
    show(
        fig,
        f"Two masks of {wanted.shape[0]} by {wanted.shape[1]}, wanted and yours. "
        f"{_places(missing)} wanted but not allowed by yours, {_places(extra)} allowed by yours "
        "but not wanted.",
    )


def _places(places: list[list[int]]) -> str:
    """How many pairs, and the first of them."""
    if not places:
        return "no pair is"
    row, column = places[0]
    which = f"query {row}, key {column}"
    if len(places) == 1:
        return f"one pair ({which}) is"
    return f"{len(places)} pairs (the first: {which}) are"


def _draw_curves(wanted: dict, got: dict) -> None:
    drawn = {"wanted": wanted["y"], "yours": got["y"]}
    fig = curves(drawn, x=wanted["x"], xlabel=wanted["xlabel"], ylabel=wanted["ylabel"])
    show(
        fig,
        f"{wanted['ylabel']} over {wanted['xlabel']}, wanted and yours. The largest difference is "
        f"{max(abs(a - b) for a, b in zip(wanted['y'], got['y'], strict=True)):.3g}.",
    )
