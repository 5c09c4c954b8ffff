"""The Mask Studio: draw an attention pattern, see what it costs and how far it reaches."""

from __future__ import annotations

import hashlib
import html
import io
from base64 import b64encode
from collections.abc import Iterable, Sequence

import numpy as np
import torch
import traitlets
from jaxtyping import Bool
from PIL import Image
from torch import Tensor

from tinyattn.analysis.graphs import max_path_length, n_components
from tinyattn.checks import whole_numbers
from tinyattn.patterns import Painted, Pattern
from tinyattn.patterns.base import check_pattern
from tinyattn.show.describe import describe_mask
from tinyattn.show.draw import ALLOWED, FORBIDDEN
from tinyattn.show.palette import ATOMS, LARGEST, PRESETS, SIZES, Preset, kit_for, taken_apart
from tinyattn.show.settings import Setting
from tinyattn.show.widgets import StaticWidget

DIGITS = 3  # of the scores that a page gets


class MaskStudio(StaticWidget, module="studio"):
    """Compose a pattern from atoms, paint on it, and see its cost, its paths and its code.

    In Jupyter the widget and Python hold the same pattern: what is painted is in
    `studio.pattern` and `studio.mask`, and what is assigned to these is drawn. On a page of the
    book it does all of this alone. Make it the last line of a cell.

    Args:
        pattern: what to start from: a pattern, such as `Window(2) | Global(1)`, or the key of a
            preset, such as "bigbird". Longformer if neither is given.
        n: tokens; the slider then goes from 8 to 64. With `scores` it is their size, and a
            `Painted` pattern, or a preset that not every number suits, brings its own.
        compare: another pattern or preset that is shown beside, with the cells that it adds and
            lacks; or a pair of them, the first in place of `pattern`.
        atoms: keys of the atoms that get sliders, among "full", "window", "dilated", "strided",
            "block", "global" and "random"; all of them if not given.
        scores: q kᵀ / √d_head, (n, n). The studio then shows the softmax of each row over the
            keys that the mask leaves, and n is fixed.
        tokens: a label for each position; n is then fixed.

    Raises:
        TypeError: if a pattern is neither a rule nor the key of a preset, `scores` no tensor, or
            `tokens` or `atoms` no list.
        ValueError: if n is out of range, `scores` not square and finite, or a preset, an atom or a size is wrong.

    Example:
        >>> MaskStudio("longformer", n=16)
        MaskStudio(n=16, Window(2) | Global(1), edges=100, mask a8bed0c2)
    """

    kit = traitlets.Dict().tag(sync=True)
    setting = traitlets.Dict().tag(sync=True)
    more = traitlets.List(traitlets.Int()).tag(sync=True)  # sizes that Python can be asked for
    asked = traitlets.Int(0).tag(sync=True)

    def __init__(
        self,
        pattern: Pattern | str | None = None,
        *,
        n: int | None = None,
        compare: object = None,
        atoms: Sequence[str] | None = None,
        scores: Tensor | None = None,
        tokens: Sequence[str] | None = None,
    ):
        if isinstance(compare, tuple | list):
            if pattern is not None or len(compare) != 2:
                raise ValueError(
                    "compare is one pattern beside `pattern`, or a pair without `pattern`, "
                    f"got {compare!r} with pattern={pattern!r}"
                )
            pattern, compare = compare
        n = _size(n, pattern, scores, tokens)
        self._presets = {preset.key: preset for preset in PRESETS}
        self._atoms = _checked_atoms(atoms)
        fixed = scores is not None or tokens is not None
        extra = {preset.n for preset in PRESETS if preset.n} if atoms is None else set()
        self._sizes = (n,) if fixed else tuple(sorted({n, *SIZES, *extra}))
        self._extra = _extra(scores, tokens)
        setting = self._setting_of("longformer" if pattern is None else pattern, n)
        if compare is not None:
            setting |= {"compare": self._key_of(compare, n)}
        super().__init__(
            kit=self._new_kit(setting),
            setting=setting,
            more=[] if fixed else [LARGEST],
        )

    def _key_of(self, pattern: object, n: int, key: str = "other") -> str:
        """The key of a preset that is this pattern; one is made if there is none."""
        if isinstance(pattern, str):
            if pattern not in self._presets:
                known = ", ".join(self._presets)
                raise ValueError(f"a preset must be one of {known}, got {pattern!r}")
            if self._presets[pattern].at(n) is None:
                raise ValueError(f"the preset {pattern!r} has no meaning on n={n} tokens")
            return pattern
        check_pattern(pattern)
        pattern.check(n)
        own = {key: Preset.of(key, pattern)}
        self._presets = own | {name: it for name, it in self._presets.items() if name != key}
        return key

    def _setting_of(self, pattern: object, n: int) -> dict[str, object]:
        """The setting that makes a pattern, with a preset of its own if no atoms make it."""
        if isinstance(pattern, str):
            key = self._key_of(pattern, n)
            pattern = self._presets[key].at(n)[0]
        check_pattern(pattern)
        pattern.check(n)
        setting = Setting.of(pattern, n, self._presets)
        return (setting or Setting(n, base=self._key_of(pattern, n, "given"))).state()

    def _new_kit(self, setting: dict[str, object]) -> dict[str, object]:
        made = kit_for(self._sizes, self._atoms, self._offered(setting), setting["terms"])
        return made | self._extra

    def _offered(self, setting: dict[str, object]) -> list[Preset]:
        """The presets of the menu: where there are few atoms, only what these can make."""
        used, own = {setting["base"], setting["compare"]}, {*self._atoms, *setting["terms"]}
        offered = []
        for preset in self._presets.values():
            built = preset.at(setting["n"])
            apart = taken_apart(built[0], setting["n"]) if built else None
            simple = apart is not None and set(apart[0]) <= own
            if len(self._atoms) == len(ATOMS) or simple or preset.key in used:
                offered.append(preset)
        return offered

    # What Python reads and writes

    @property
    def pattern(self) -> Pattern:
        """The pattern that is shown; `Painted` where cells were changed by hand."""
        return self._read().pattern(self._presets)

    @pattern.setter
    def pattern(self, pattern: Pattern) -> None:
        n = _size(None, pattern, None, None) if isinstance(pattern, Painted) else self.n
        self._show(self._setting_of(pattern, n))

    @property
    def mask(self) -> Bool[Tensor, "n n"]:
        """The matrix that is shown, True where a query may read. Assign one to draw it."""
        return self._read().mask(self._presets)

    @mask.setter
    def mask(self, mask: Bool[Tensor, "n n"]) -> None:
        if not isinstance(mask, Tensor) or mask.dtype != torch.bool or mask.dim() != 2:
            raise TypeError(f"mask must be a bool tensor (n, n), True = may read, got {mask!r:.80}")
        if mask.shape[0] != mask.shape[1] or not 1 <= len(mask) <= LARGEST:
            raise ValueError(f"mask must be (n, n), n in 1 … {LARGEST}, got {tuple(mask.shape)}")
        self._show(self._read().with_mask(mask, self._presets).state())

    @property
    def n(self) -> int:
        return self.setting["n"]

    @property
    def expression(self) -> str:
        """Python for the pattern, with the names of `tinyattn.patterns` and torch."""
        return self._read().expression(self._presets)

    def _read(self) -> Setting:
        return Setting.read(self.setting, self._presets)

    def _show(self, setting: dict[str, object]) -> None:
        if "tokens" in self._extra or "scores" in self._extra:
            if setting["n"] != self.n:
                raise ValueError(f"this studio has n={self.n} tokens, got {setting['n']}")
        elif setting["n"] not in self._sizes:
            self._sizes = tuple(sorted({*self._sizes, setting["n"]}))
        if setting["n"] == self.n:
            setting |= {"compare": self.setting["compare"]}
        with self.hold_sync():
            self.kit = self._new_kit(setting)
            self.setting = setting

    @traitlets.validate("setting")
    def _check(self, proposal: traitlets.Bunch) -> dict[str, object]:
        """A setting without a meaning is refused; the last good one stays."""
        try:
            setting = Setting.read(proposal["value"], self._presets)
            _check_on_page(setting, self.kit)
            return setting.state()
        except ValueError as error:
            raise traitlets.TraitError(str(error)) from error

    @traitlets.observe("asked")
    def _answer(self, change: traitlets.Bunch) -> None:
        """The browser wants a size that it has no masks of."""
        if change["new"] in self.more:
            self._sizes = tuple(sorted({*self._sizes, change["new"]}))
            self.kit = self._new_kit(self.setting)

    # Where there is no kernel, no JavaScript, or no picture

    def page_state(self) -> dict[str, object]:
        return {"kit": self.kit, "setting": self.setting}

    def still(self) -> str:
        setting = self._read()
        alt = describe_mask(self.pattern, setting.n)
        source = "data:image/png;base64," + b64encode(_png(setting.mask(self._presets))).decode()
        code = "painted by hand" if setting.by_hand else html.escape(self.expression)
        return (
            f'<figure><img src="{source}" alt="{html.escape(alt)}" width="320" height="320">'
            f"<figcaption><code>{code}</code>, n = {setting.n}. {html.escape(self._counts())}"
            " With JavaScript, atoms can be changed and cells painted.</figcaption></figure>"
        )

    def _counts(self) -> str:
        mask = self.mask
        edges, longest = int(mask.sum()), max_path_length(mask)
        said = f"{edges} of {mask.numel()} pairs allowed, {100 * edges / mask.numel():.3g} %"
        if longest < float("inf"):
            said += f"; any token reaches any other within {longest:.0f} layers."
        elif (parts := n_components(mask)) > 1:
            said += f"; disconnected, {parts} components."
        else:
            said += "; some tokens never reach some others."
        if self.setting["compare"]:
            other, text = self._presets[self.setting["compare"]].at(self.n)
            beside = other.mask(self.n)
            added, removed = int((beside & ~mask).sum()), int((mask & ~beside).sum())
            said += f" Compared with it, {text} adds {added} pairs and lacks {removed}."
        return said

    def __repr__(self) -> str:
        mask = self.mask
        what = repr(self.pattern) if self._read().by_hand else self.expression
        name = hashlib.sha256(mask.numpy().tobytes()).hexdigest()[:8]
        said = f"n={self.n}, {what}, edges={int(mask.sum())}, mask {name}"
        if self.setting["compare"]:
            said += f", beside {self._presets[self.setting['compare']].at(self.n)[1]}"
        return f"MaskStudio({said})"


def _size(n: int | None, pattern: object, scores: Tensor | None, tokens: object) -> int:
    """The number of tokens, from whatever says it; all must agree."""
    sizes = {"n": n, "pattern": pattern.n if isinstance(pattern, Painted) else None}
    if n is None and isinstance(pattern, str):
        sizes["pattern"] = next((preset.n for preset in PRESETS if preset.key == pattern), None)
    sizes["scores"] = None if scores is None else _side(scores)
    sizes["tokens"] = None if tokens is None else _number_of(tokens)
    said = {name: size for name, size in sizes.items() if size is not None}
    if len(set(said.values())) > 1:
        raise ValueError(f"n, scores, tokens and a painted pattern must agree, got {said}")
    size = next(iter(said.values()), 16)
    (size,) = whole_numbers(n=size)  # of numpy, say, which is no JSON
    if not 1 <= size <= LARGEST:
        raise ValueError(f"n must be in 1 … {LARGEST}, got {size}")
    return size


def _side(scores: object) -> int:
    if not isinstance(scores, Tensor) or scores.is_complex():
        got = scores.dtype if isinstance(scores, Tensor) else type(scores).__name__
        raise TypeError(f"scores must be a real tensor (n, n), got {got}")
    if scores.dim() != 2 or scores.shape[0] != scores.shape[1] or not scores.isfinite().all():
        raise ValueError(f"scores must be (n, n) and finite, got {tuple(scores.shape)}")
    return len(scores)


def _number_of(tokens: object) -> int:
    if not isinstance(tokens, Sequence | np.ndarray):
        raise TypeError(
            f"tokens must be a list with a label for each position, got {type(tokens).__name__}"
        )
    return len(tokens)


def _checked_atoms(atoms: Sequence[str] | None) -> list[str]:
    known = [atom.key for atom in ATOMS]
    if atoms is None:
        return known
    if isinstance(atoms, str) or not isinstance(atoms, Iterable):
        raise TypeError(f"atoms must be a list of keys, as in ['window', 'global'], got {atoms!r}")
    atoms = list(atoms)
    for key in atoms:
        if key not in known:
            raise ValueError(f"an atom must be one of {', '.join(known)}, got {key!r}")
    return atoms


def _extra(scores: Tensor | None, tokens: Sequence[str] | None) -> dict[str, object]:
    extra: dict[str, object] = {}
    if scores is not None:
        extra["scores"] = [[round(x, DIGITS) for x in row] for row in scores.tolist()]
    if tokens is not None:
        extra["tokens"] = [str(token) for token in tokens]
    return extra


def _check_on_page(setting: Setting, kit: dict) -> None:
    """Refuse a setting of which the page has no masks, as static/studio.js does."""
    n = setting.n
    if n not in kit["sizes"]:
        raise ValueError(f"n must be one of {', '.join(map(str, kit['sizes']))} here, got {n}")
    atoms = {atom["key"]: atom for atom in kit["atoms"]}
    for key, values in setting.terms.items():
        if key not in atoms:
            raise ValueError(f"there is no atom {key!r} here")
        name, choices = atoms[key]["name"], atoms[key]["choices"]
        if not all(value in known for value, known in zip(values, choices, strict=True)):
            raise ValueError(f"{name} has no such setting here: {', '.join(map(str, values))}")
        if atoms[key]["drawn"] and str(n) not in atoms[key]["bitmaps"]:
            raise ValueError(f"there is no draw of {name} for n = {n}")
    offered = {preset["key"] for preset in kit["presets"]}
    for key in (setting.base, setting.compare):
        if key is not None and key not in offered:
            raise ValueError(f"there is no preset {key!r} here")


def _png(mask: Bool[Tensor, "n n"]) -> bytes:
    """The mask as a picture of few bytes: whole cells, a line between them."""
    cell = max(4, 320 // len(mask))
    rows = mask.repeat_interleave(cell, 0).repeat_interleave(cell, 1).to(torch.uint8)
    rows[cell - 1 :: cell] = 2
    rows[:, cell - 1 :: cell] = 2
    picture = Image.fromarray(rows.numpy(), mode="P")
    colours = (FORBIDDEN, ALLOWED, "#ffffff")
    picture.putpalette([int(c[k : k + 2], 16) for c in colours for k in (1, 3, 5)])
    out = io.BytesIO()
    picture.save(out, "PNG", optimize=True)
    return out.getvalue()
