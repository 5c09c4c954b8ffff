"""What a Mask Studio shows, as a value: atoms, a published model, and cells changed by hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import reduce
from operator import or_

import torch
from jaxtyping import Bool
from torch import Tensor

from tinyattn.checks import whole_numbers
from tinyattn.patterns import Causal, Full, Global, Painted, Pattern
from tinyattn.show.bitmaps import pack, unpack
from tinyattn.show.palette import ATOMS, LARGEST, Preset, painted, taken_apart

BY_KEY = {atom.key: atom for atom in ATOMS}


@dataclass(frozen=True)
class Setting:
    """A union of atoms, and of one pattern that is none, perhaps causal, with cells on top.

    Args:
        n: tokens.
        terms: the values of each atom that is on.
        causal: whether the union is cut to the past.
        base: key of a preset that takes part as a whole, or None.
        added: packed mask of cells that are allowed whatever the rules say, "" for none.
        erased: packed mask of cells that are forbidden.
        compare: key of the preset that stands beside, or None.
    """

    n: int
    terms: Mapping[str, list[int]] = field(default_factory=dict)
    causal: bool = False
    base: str | None = None
    added: str = ""
    erased: str = ""
    compare: str | None = None

    @classmethod
    def read(cls, state: object, presets: Mapping[str, Preset]) -> Setting:
        """The setting of a widget's state.

        Raises:
            ValueError: saying what is wrong with it.
        """
        if not isinstance(state, Mapping) or set(state) - set(cls.__dataclass_fields__):
            raise ValueError(f"a setting has {', '.join(cls.__dataclass_fields__)}, got {state!r}")
        try:
            setting = cls(**_checked(state))
            if not 1 <= setting.n <= LARGEST:
                raise ValueError(f"n must be in 1 … {LARGEST}, got {setting.n}")
            for key in (setting.base, setting.compare):
                if key is not None and (key not in presets or presets[key].at(setting.n) is None):
                    raise ValueError(f"there is no preset {key!r} for n={setting.n}")
            setting.mask(presets)
        except (TypeError, AttributeError) as error:
            raise ValueError(f"no setting: {error}") from error
        return setting

    @classmethod
    def of(cls, pattern: Pattern, n: int, presets: Mapping[str, Preset]) -> Setting | None:
        """How the studio makes a pattern out of atoms and presets; None if it can not."""
        if isinstance(pattern, Painted):
            return cls(n, added=pack(pattern.mask(n)))
        apart = taken_apart(pattern, n)
        if apart is not None:
            return cls(n, *apart)
        for preset in presets.values():
            built = preset.at(n)
            if built is not None and built[0] == pattern:
                return cls(n, base=preset.key)
        return None

    def state(self) -> dict[str, object]:
        return asdict(self)

    @property
    def by_hand(self) -> bool:
        return bool(self.added or self.erased)

    def rule(self, presets: Mapping[str, Preset]) -> Pattern:
        """The pattern without what was painted."""
        parts = [presets[self.base].at(self.n)[0]] if self.base else []
        parts += [BY_KEY[key].pattern(values, self.n) for key, values in self._in_order()]
        union = reduce(or_, parts) if parts else Global(0)
        if not self.causal:
            return union
        return Causal() if union == Full() else union & Causal()

    def mask(self, presets: Mapping[str, Preset]) -> Bool[Tensor, "n n"]:
        mask = self.rule(presets).mask(self.n)
        if self.added:
            mask = mask | unpack(self.added, self.n)
        if self.erased:
            mask = mask & ~unpack(self.erased, self.n)
        return mask

    def pattern(self, presets: Mapping[str, Preset]) -> Pattern:
        return Painted(self.mask(presets)) if self.by_hand else self.rule(presets)

    def expression(self, presets: Mapping[str, Preset]) -> str:
        """Python that makes the pattern, with the names of `tinyattn.patterns` and torch."""
        if self.by_hand:
            return painted(self.mask(presets))
        parts = [presets[self.base].at(self.n)[1]] if self.base else []
        for key, values in self._in_order():
            names = dict(zip(BY_KEY[key].parameters, values, strict=True))
            parts.append(BY_KEY[key].call().format(n=self.n, **names))
        if not self.causal:
            return " | ".join(parts) or "Global(0)"
        if parts == ["Full()"]:
            return "Causal()"
        union = " | ".join(parts) or "Global(0)"
        return f"({union}) & Causal()" if " | " in union else f"{union} & Causal()"

    def with_mask(self, mask: Bool[Tensor, "n n"], presets: Mapping[str, Preset]) -> Setting:
        """The same rules, with cells on top that make them this mask."""
        if len(mask) != self.n:
            return Setting(len(mask), added=_packed(mask))
        rule = self.rule(presets).mask(self.n)
        values = {**self.state(), "added": _packed(mask & ~rule), "erased": _packed(rule & ~mask)}
        return Setting(**values)

    def _in_order(self) -> list[tuple[str, list[int]]]:
        return [(key, self.terms[key]) for key in BY_KEY if key in self.terms]


def _checked(state: Mapping) -> dict[str, object]:
    """The values of a state, if each is what static/studio.js demands of it too."""
    if "n" not in state:
        raise ValueError("a setting must have n, the number of tokens")
    (n,) = whole_numbers(n=state["n"])
    checked = {**state, "n": n, "terms": _checked_terms(state.get("terms", {}))}
    if not isinstance(checked.get("causal", False), bool):
        raise TypeError(f"causal must be True or False, got {checked['causal']!r:.80}")
    for name in ("base", "compare"):
        if not isinstance(checked.get(name), str | None):
            raise TypeError(f"{name} must be the key of a preset, got {checked[name]!r:.80}")
    for name in ("added", "erased"):
        if not isinstance(checked.get(name, ""), str):
            raise TypeError(f"{name} must be a packed mask, got {checked[name]!r:.80}")
    return checked


def _checked_terms(terms: object) -> dict[str, list[int]]:
    if not isinstance(terms, Mapping):
        raise TypeError(f"terms must hold the values of each atom, got {terms!r:.80}")
    checked = {}
    for key, values in terms.items():
        if key not in BY_KEY:
            raise ValueError(f"an atom must be one of {', '.join(BY_KEY)}, got {key!r}")
        names = list(BY_KEY[key].parameters)
        if not isinstance(values, list | tuple) or len(values) != len(names):
            said = f"a list of {', '.join(names)}" if names else "an empty list"
            raise ValueError(f"the atom {key!r} must have {said}, got {values!r:.80}")
        checked[key] = list(whole_numbers(**dict(zip(names, values, strict=True))))
    return checked


def _packed(mask: Bool[Tensor, "n n"]) -> str:
    return pack(mask) if bool(torch.any(mask)) else ""
