"""Claims about growth, and a ledger that refuses the ones that a count contradicts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from tinyattn.analysis.measure import Fit, Number, fit_exponent

FAR_OUT = tuple(2**e for e in range(20, 25))  # where the leading power is all that is left


@dataclass(frozen=True)
class Claim:
    """One statement of the kind "attention needs O(n²) operations", and what became of it.

    A count is a fact about a formula, and has to agree. A time is a fact about one machine on
    one day; it is reported beside the claim and decides nothing.

    Args:
        name: what grows.
        claimed: the exponent that is claimed.
        counted: growth of an exact count: operations, bytes, pairs, layers.
        measured: growth of seconds.
        of: what it grows with.
        where: the chapter that says so.
        tolerance: how far the counted exponent may be off; a sum's lower powers fade slowly.

    Example:
        >>> Claim.of_count("pairs of a causal mask", 2, lambda n: n * (n + 1) // 2).holds
        True
    """

    name: str
    claimed: Number
    counted: Fit | None = None
    measured: Fit | None = None
    of: str = "n"
    where: str = ""
    tolerance: Number = 0.01

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("a claim needs a name that says what grows, got ''")
        if self.tolerance < 0:
            raise ValueError(f"tolerance must be 0 or more, got {self.tolerance}")

    @classmethod
    def of_count(
        cls,
        name: str,
        claimed: Number,
        count: Callable[[int], Number],
        at: Sequence[int] = FAR_OUT,
        **said: object,
    ) -> Claim:
        """A claim about a count, which is evaluated at several sizes.

        Args:
            name: what grows.
            claimed: the exponent that is claimed.
            count: gives the number at one size.
            at: the sizes; very large ones if not given, which a formula takes in its stride.
            said: the other fields of a claim.
        """
        return cls(name, claimed, fit_exponent(at, [count(size) for size in at]), **said)

    @property
    def holds(self) -> bool | None:
        """Whether the count agrees; None if nothing was counted."""
        if self.counted is None:
            return None
        return abs(self.counted.exponent - self.claimed) <= self.tolerance

    def __str__(self) -> str:
        return f"{self.name}: claimed {self.of}^{self.claimed:g}, counted {_shown(self.counted)}"


class Ledger:
    """Claims in the order in which they were made.

    Example:
        >>> ledger = Ledger()
        >>> ledger.add(Claim.of_count("scores", 2, lambda n: n**2, where="01_attention"))
        >>> ledger.check()
        >>> ledger.add(Claim.of_count("scores, by a rumour", 3, lambda n: n**2))
        >>> ledger.check()
        Traceback (most recent call last):
        AssertionError: 1 of 2 claims is off: scores, by a rumour: claimed n^3, counted 2.00 ± 0.00
    """

    def __init__(self, claims: Iterable[Claim] = ()) -> None:
        self.claims: list[Claim] = []
        for claim in claims:
            self.add(claim)

    def add(self, claim: Claim) -> None:
        """Write a claim down.

        Raises:
            ValueError: if another claim has its name.
        """
        if any(claim.name == other.name for other in self.claims):
            raise ValueError(f"the ledger has a claim called {claim.name!r} already")
        self.claims.append(claim)

    def check(self) -> None:
        """Raise AssertionError if a counted claim is off, and name all that are."""
        off = [str(claim) for claim in self.claims if claim.holds is False]
        if off:
            verb = "is" if len(off) == 1 else "are"
            raise AssertionError(
                f"{len(off)} of {len(self.claims)} claims {verb} off: {'; '.join(off)}"
            )

    def table(self, *, up: str | None = None) -> str:
        """All claims as a Markdown table.

        Args:
            up: how a page gets from its own folder to that of the chapters, such as "../"; the
                chapters are then links.
        """
        rows = ["| claim | claimed | counted | measured | where |", "|---|---|---|---|---|"]
        for claim in self.claims:
            cells = (
                claim.name,
                _power(claim.of, claim.claimed),
                ("–" if claim.counted is None else f"{claim.counted.exponent:.2f}")
                + (" (off)" if claim.holds is False else ""),
                _shown(claim.measured),
                _place(claim.where, up),
            )
            rows.append(f"| {' | '.join(cells)} |")
        return "\n".join(rows)


def _shown(fit: Fit | None) -> str:
    return "–" if fit is None else str(fit)


def _power(of: str, exponent: Number) -> str:
    """A power as LaTeX; the zeroth is 1."""
    base = re.sub(r"_(\w+)", r"_\\text{\1}", of)
    powers = {0: "1", 1: f"${base}$"}
    return powers.get(exponent, f"${base}^{{{exponent:g}}}$")


def _place(chapter: str, up: str | None) -> str:
    if not chapter:
        return "–"
    if up is None:
        return chapter
    number = chapter.partition("_")[0]
    called = f"chapter {int(number)}" if number.isdigit() else chapter
    return f"[{called}]({up}{chapter}.ipynb)"
