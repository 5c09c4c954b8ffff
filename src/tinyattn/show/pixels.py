"""Choose a pixel of a picture, and see which others it may read through one, two or three layers."""

from __future__ import annotations

import html
import io
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

import numpy as np
import torch
import traitlets
from jaxtyping import Bool, Int64, Real
from PIL import Image
from torch import Tensor

from tinyattn.analysis.graphs import first_seen
from tinyattn.patterns import BlockLocal, Causal, Pattern, Strided
from tinyattn.patterns.base import Intersection, check_pattern
from tinyattn.patterns.grid import BlockAndMemory, ImageBlocks
from tinyattn.show.widgets import StaticWidget

MOST_PIXELS = 10_000  # that a page carries, and follows without a pause
MOST_LAYERS = 3
TINTS = ((176, 32, 32), (217, 130, 0), (20, 104, 176))  # of what 1, 2, 3 layers see first


class PixelStudio(StaticWidget, module="pixels"):
    """Pick any pixel of a picture; those that it knows through a stack of layers are coloured.

    In Jupyter the choice is also in `studio.pixel`, `studio.model` and `studio.n_layers`, which can
    be assigned. On a page of the book the rules are computed by the page, for every pixel. Make it
    the last line of a cell.

    Args:
        picture: light from 0 to 255; of bools, black and white.
        models: for each name the rule of every layer, first layer first, equally many; made by
            `image_1d`, `image_2d`, `axial_rows` or `axial_columns`, with or without `& Causal()`.
        pixel: row and column to start from; the middle if not given.

    Raises:
        TypeError: if a rule is none, or a stack of layers no list of them.
        ValueError: if the picture, the pixel or the stacks of layers are not fit to be shown, or
            `image_2d` was made for a picture of another shape.

    Example:
        >>> from tinyattn.patterns import axial_columns, axial_rows
        >>> stacks = {"axial": [axial_rows(4), axial_columns(4)]}
        >>> PixelStudio(torch.zeros(3, 4), stacks, pixel=(0, 1))
        PixelStudio(3 x 4, pixel (0, 1), axial: 3, 12 pixels known)
    """

    picture = traitlets.Dict().tag(sync=True)
    models = traitlets.List(traitlets.Dict()).tag(sync=True)
    pixel = traitlets.List(traitlets.Int()).tag(sync=True)
    model = traitlets.Unicode().tag(sync=True)
    n_layers = traitlets.Int(1).tag(sync=True)

    def __init__(
        self,
        picture: Real[Tensor, "height width"] | Bool[Tensor, "height width"],
        models: Mapping[str, Sequence[Pattern]],
        *,
        pixel: tuple[int, int] | None = None,
    ):
        light = _checked_picture(picture)
        self.height, self.width = light.shape
        middle = self.height // 2, self.width // 2
        self._light, self._rules = light, _checked_stacks(models)
        described = [
            {"name": name, "rules": [_described(rule, self.height, self.width) for rule in rules]}
            for name, rules in self._rules.items()
        ]
        self._depth = len(next(iter(self._rules.values())))
        grey = b64encode(light.numpy().tobytes()).decode()
        super().__init__(
            picture={"height": self.height, "width": self.width, "grey": grey},
            models=described,
            pixel=_checked_pixel(middle if pixel is None else pixel, self.height, self.width),
            model=next(iter(self._rules)),
        )

    # What Python reads

    def seen(self, model: str | None = None) -> Int64[Tensor, "height width"]:
        """Through how many layers the chosen pixel first sees each other one; 0 for not at all."""
        row, col = self.pixel
        rules = self._rules[self.model if model is None else model]
        found = first_seen(rules, row * self.width + col, self._light.numel())
        return found.view(self.height, self.width)

    @property
    def description(self) -> str:
        """What is shown, in words; the page says the same."""
        row, col = self.pixel
        known = (self.seen() > 0) & (self.seen() <= self.n_layers)
        rows, columns = (known.any(dim=k).nonzero()[:, 0].tolist() for k in (1, 0))
        return (
            f"Pixel at row {row}, column {col}. Through {_plural(self.n_layers, 'layer')} of "
            f"{self.model} attention it knows {int(known.sum()):,} of {known.numel():,} pixels, in "
            f"{_plural(len(rows), 'row')} ({_runs(rows)}) and "
            f"{_plural(len(columns), 'column')} ({_runs(columns)})."
        )

    @traitlets.validate("pixel")
    def _check_pixel(self, proposal: traitlets.Bunch) -> list[int]:
        try:
            return _checked_pixel(proposal["value"], self.height, self.width)
        except ValueError as error:
            raise traitlets.TraitError(str(error)) from error

    @traitlets.validate("model")
    def _check_model(self, proposal: traitlets.Bunch) -> str:
        if proposal["value"] not in self._rules:
            known = ", ".join(self._rules)
            raise traitlets.TraitError(f"model must be one of {known}, got {proposal['value']!r}")
        return proposal["value"]

    @traitlets.validate("n_layers")
    def _check_n_layers(self, proposal: traitlets.Bunch) -> int:
        if not 1 <= proposal["value"] <= self._depth:
            raise traitlets.TraitError(
                f"n_layers must be in 1 … {self._depth}, got {proposal['value']}"
            )
        return proposal["value"]

    # Where there is no kernel, no JavaScript, or no picture

    def page_state(self) -> dict[str, object]:
        names = ("picture", "models", "pixel", "model", "n_layers")
        return {name: getattr(self, name) for name in names}

    def still(self) -> str:
        source = "data:image/png;base64," + b64encode(self._png()).decode()
        size = f'width="{6 * self.width}" height="{6 * self.height}"'
        said = html.escape(self.description)
        return (
            f'<figure><img src="{source}" alt="{said}" {size}><figcaption>{said} '
            "With JavaScript, any pixel can be chosen.</figcaption></figure>"
        )

    def _png(self) -> bytes:
        """The picture, washed out where it is not known."""
        seen = self.seen()
        seen = torch.where(seen <= self.n_layers, seen, 0)[..., None]
        light = self._light[..., None].float().expand(-1, -1, 3)
        tints = torch.tensor([(233, 238, 243), *TINTS])[seen[..., 0]]
        share = torch.where(seen == 0, 0.75, 0.55)
        colours = (light * (1 - share) + tints * share).round().to(torch.uint8)
        out = io.BytesIO()
        picture = Image.fromarray(colours.numpy())
        picture.quantize(48).save(out, "PNG", optimize=True)
        return out.getvalue()

    def __repr__(self) -> str:
        known = []
        for name in self._rules:
            seen = self.seen(name)
            counts = [int(((seen > 0) & (seen <= m)).sum()) for m in range(1, self._depth + 1)]
            known.append(f"{name}: {', '.join(map(str, counts))}")
        row, col = self.pixel
        said = f"{self.height} x {self.width}, pixel ({row}, {col}), {'; '.join(known)}"
        return f"PixelStudio({said} pixels known)"


def _checked_picture(picture: Tensor) -> Tensor:
    """Its light as bytes."""
    if not isinstance(picture, Tensor) or picture.dim() != 2 or not picture.numel():
        what = tuple(picture.shape) if isinstance(picture, Tensor) else type(picture).__name__
        raise ValueError(f"picture must be a tensor (height, width), got {what}")
    if picture.is_complex():
        raise ValueError(f"picture must hold real numbers, got {picture.dtype}")
    if picture.dtype == torch.bool:
        picture = picture * 255
    if picture.numel() > MOST_PIXELS:
        raise ValueError(
            f"picture must have {MOST_PIXELS:,} pixels or fewer, got {picture.numel():,}: "
            "average it down"
        )
    if not (picture.isfinite().all() and 0 <= picture.min() and picture.max() <= 255):
        raise ValueError(
            "picture must hold light from 0 to 255, "
            f"got {float(picture.min()):.3g} to {float(picture.max()):.3g}"
        )
    return picture.detach().cpu().round().to(torch.uint8).contiguous()


def _checked_pixel(pixel: Sequence[int], height: int, width: int) -> list[int]:
    place = list(pixel) if isinstance(pixel, Sequence) else []
    whole = len(place) == 2 and all(isinstance(at, int | np.integer) for at in place)
    if not whole or not (0 <= place[0] < height and 0 <= place[1] < width):
        raise ValueError(
            f"pixel must be a row below {height} and a column below {width}, got {pixel!r:.80}"
        )
    return [int(at) for at in place]


def _checked_stacks(models: Mapping[str, Sequence[Pattern]]) -> dict[str, list[Pattern]]:
    if not isinstance(models, Mapping):
        raise TypeError(
            'models must hold a list of rules for each name, as in {"axial": [axial_rows(4)]}, '
            f"got {type(models).__name__}"
        )
    stacks = {}
    for name, rules in models.items():
        if isinstance(rules, str) or not isinstance(rules, Iterable):
            raise TypeError(
                f"the rules of {name} must be a list with one for each layer, got {rules!r:.80}"
            )
        stacks[str(name)] = list(rules)
    depths = {len(rules) for rules in stacks.values()}
    if len(depths) != 1 or not 1 <= max(depths) <= MOST_LAYERS:
        raise ValueError(
            f"models must have equally many layers, 1 to {MOST_LAYERS}, "
            f"got {', '.join(f'{name}: {len(rules)}' for name, rules in stacks.items()) or 'none'}"
        )
    for rules in stacks.values():
        for rule in rules:
            check_pattern(rule)
    return stacks


def _described(rule: Pattern, height: int, width: int) -> dict[str, object]:
    """A rule as JSON, in the three kinds that static/pixels.js knows, for a picture of that shape."""
    core, causal = rule, False
    while isinstance(core, Intersection) and Causal() in (core.left, core.right):
        core, causal = core.left if core.right == Causal() else core.right, True
    if isinstance(core, BlockLocal) and core.before == core.after == 0:
        core = BlockAndMemory(core.block_size, memory=0)
    if isinstance(core, BlockAndMemory):
        sizes = {"size": core.block_size, "memory": core.memory}
        return {"kind": "block", **sizes, "causal": causal}
    if isinstance(core, Strided):
        return {"kind": "stride", "size": core.stride, "causal": causal}
    if isinstance(core, ImageBlocks) and not causal:
        if (core.height, core.width) != (height, width):
            raise ValueError(
                f"image_2d must be made for this picture of {height} rows and {width} columns, "
                f"got one for {core.height} rows and {core.width} columns"
            )
        sides = {"block": list(core.block), "flange": list(core.flange)}
        return {"kind": "tile", **sides, "causal": core.causal}
    raise ValueError(
        "rules must be those of image_1d, image_2d, axial_rows or axial_columns (the second has a "
        f"causal rule of its own, the others take & Causal()), got {rule!r}"
    )


def _plural(number: int, one: str) -> str:
    return f"{number:,} {one}{'s' * (number != 1)}"


def _runs(places: Sequence[int]) -> str:
    """Sorted places with runs joined.

    Example:
        >>> _runs([0, 1, 2, 5, 8, 9])
        '0 to 2, 5, 8, 9'
    """
    said = []
    for _, group in groupby(enumerate(places), lambda pair: pair[1] - pair[0]):
        run = [place for _, place in group]
        said.append(f"{run[0]} to {run[-1]}" if len(run) > 2 else ", ".join(map(str, run)))
    return ", ".join(said)
