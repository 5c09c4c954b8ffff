"""Figures and widgets that every reader can use: with or without eyes, a kernel or a network."""

from tinyattn.show.describe import describe_mask
from tinyattn.show.digests import digest
from tinyattn.show.draw import curves, draw_mask, heatmap
from tinyattn.show.figures import show, style
from tinyattn.show.pixels import PixelStudio
from tinyattn.show.studio import MaskStudio
from tinyattn.show.study import Checklist, quiz
from tinyattn.show.taxonomy import Outline
from tinyattn.show.widgets import StaticWidget, explore

__all__ = [
    "Checklist",
    "MaskStudio",
    "Outline",
    "PixelStudio",
    "StaticWidget",
    "curves",
    "describe_mask",
    "digest",
    "draw_mask",
    "explore",
    "heatmap",
    "quiz",
    "show",
    "style",
]
