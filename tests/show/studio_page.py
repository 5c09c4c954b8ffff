"""Drives a Mask Studio on a page, and computes in Python what it should show."""

from __future__ import annotations

import math

import torch
from playwright.sync_api import Locator, Page

import tinyattn.patterns
from tinyattn.analysis.graphs import n_components, path_lengths

NAMES = {name: getattr(tinyattn.patterns, name) for name in tinyattn.patterns.__all__}

# What neither side takes into the setting of a studio of 16 tokens: what the page says of it, and
# what Python says.
WRONG_SETTINGS = [
    (
        {"n": 0},
        "n must be one of 8, 16, 24, 31, 32, 40, 48, 56, 64 here, got 0",
        "in 1 … 128, got 0",
    ),
    ({"n": 10**9}, "got 1000000000", "n must be in 1 … 128, got 1000000000"),
    ({"n": 17}, "n must be one of 8, 16", "n must be one of 8, 16, 24, 31, .*, 64 here, got 17"),
    ({"n": None}, "got null", "n must be a whole number, got None"),
    ({"n": True}, "got true", "n must be a whole number, got True"),
    ({"n": "16"}, "got 16", "n must be a whole number, got '16'"),
    ({"n": [16]}, "got 16", r"n must be a whole number, got \[16\]"),
    (
        {"terms": {"window": [99]}},
        "Window has no such setting here: 99",
        "Window has no .* here: 99",
    ),
    ({"terms": {"window": [-1]}}, "Window has no such setting here", "w must be 0 or more.*got -1"),
    ({"terms": {"window": [None]}}, "Window has no such setting here", "w must be a whole number"),
    ({"terms": {"window": [True]}}, "Window has no such setting here", "w must be a whole number"),
    ({"terms": {"window": ["2"]}}, "Window has no such setting here", "w must be a whole number"),
    (
        {"terms": {"window": []}},
        "Window has no such setting here",
        r"must have a list of w, got \[\]",
    ),
    ({"terms": {"window": [1, 2]}}, "Window has no such setting here", "must have a list of w"),
    (
        {"terms": {"window": 3}},
        "Window has no such setting here: 3",
        "must have a list of w, got 3",
    ),
    (
        {"terms": {"dilated": "23"}},
        "Dilated has no such",
        "must have a list of w, dilation, got '23'",
    ),
    ({"terms": {"full": ""}}, "Full has no such setting here", "'full' must have an empty list"),
    ({"terms": {"full": {}}}, "Full has no such setting here", "'full' must have an empty list"),
    ({"terms": {"<b>": []}}, "there is no atom “<b>” here", "an atom must be one of full, window"),
    ({"terms": []}, "terms must be an object", "terms must hold the values of each atom"),
    ({"terms": ""}, "terms must be an object", "terms must hold the values of each atom"),
    ({"terms": None}, "terms must be an object", "terms must hold .*, got None"),
    ({"base": "unknown"}, "there is no preset “unknown”", "no preset 'unknown' for n=16"),
    ({"base": ""}, "there is no preset “”", "no preset '' for n=16"),
    ({"base": False}, "there is no preset “false”", "base must be the key of a preset, got False"),
    ({"base": ["bigbird"]}, "there is no preset", "base must be the key of a preset, got "),
    ({"base": "bp_transformer"}, "has no meaning on n = 16", "no preset 'bp_transformer' for n=16"),
    ({"compare": "unknown"}, "there is no preset “unknown”", "no preset 'unknown'"),
    ({"compare": 7}, "there is no preset “7”", "compare must be the key of a preset, got 7"),
    ({"causal": "no"}, "causal must be true or false", "causal must be True or False, got 'no'"),
    ({"causal": 1}, "causal must be true or false", "causal must be True or False, got 1"),
    ({"causal": None}, "causal must be true or false", "causal must be True or False, got None"),
    ({"added": "r!"}, "a mask is not packed as it should be", "base 64"),
    ({"added": "rAAE="}, "a mask is not packed as it should be", "base 64.*padding is left out"),
    ({"added": "rAA E"}, "a mask is not packed as it should be", "base 64"),
    ({"added": "xAAE"}, "a mask is not packed as it should be", "starts with r or d"),
    ({"added": "rAAE"}, "has not the 256 cells of n = 16", "has 256 cells, got 1"),
    (
        {"added": None},
        "a mask is not packed as it should be",
        "added must be a packed mask, got No",
    ),
    ({"erased": 5}, "a mask is not packed as it should be", "erased must be a packed mask, got 5"),
    ({"erased": []}, "a mask is not packed as it should be", "erased must be a packed mask"),
    ({"erased": False}, "a mask is not packed as it should be", "erased must be a packed mask"),
    (
        {"colour": "red"},
        "a setting has n, terms, causal, base, added, erased, compare, got colour",
        "a setting has n, terms",
    ),
]

# Which cells of a canvas are drawn as allowed, away from their borders and middles.
INKED = """(canvas, n) => {
    const look = getComputedStyle(canvas.closest(".tinyattn-studio"));
    const rgb = name => look.getPropertyValue(name).trim().slice(1).match(/../g)
        .map(part => parseInt(part, 16));
    const [ink, paper] = [rgb("--studio-ink"), rgb("--studio-paper")];
    const pen = canvas.getContext("2d"), size = canvas.width / n, rows = [];
    const apart = (one, other) => one.reduce((sum, c, k) => sum + Math.abs(c - other[k]), 0);
    for (let i = 0; i < n; i++) {
        rows.push([]);
        for (let j = 0; j < n; j++) {
            const [x, y] = [Math.floor((j + 0.3) * size), Math.floor((i + 0.3) * size)];
            const colour = [...pen.getImageData(x, y, 1, 1).data].slice(0, 3);
            rows[i].push(apart(colour, ink) < 12 ? 1 : apart(colour, paper) < 12 ? 0 : 2);
        }
    }
    return rows;
}"""


class Studio:
    """One studio of a page, as a reader operates and sees it."""

    def __init__(self, page: Page, number: int = 0):
        self.page = page
        self.box = page.locator(".tinyattn-studio").nth(number)
        self.matrix = self.box.locator(".tinyattn-studio-matrix")
        self.second = self.box.locator(".tinyattn-studio-second")

    @property
    def code(self) -> str:
        return self.box.locator("textarea").input_value()

    @property
    def mask(self) -> torch.Tensor:
        """The mask of the Python that the studio shows."""
        return evaluated(self.code, self.n)

    @property
    def n(self) -> int:
        return math.isqrt(int(self.numbers()["pairs"].split(" of ")[1].replace(",", "")))

    @property
    def draws(self) -> int:
        return int(self.box.get_attribute("data-draws"))

    @property
    def milliseconds(self) -> float:
        return float(self.box.get_attribute("data-milliseconds"))

    def numbers(self, which: str = "number") -> dict[str, str]:
        found = self.box.locator(f"[data-{which}]").all()
        return {it.get_attribute(f"data-{which}"): it.text_content() for it in found}

    def inked(self, canvas: Locator | None = None) -> torch.Tensor:
        """What the canvas shows: 1 allowed, 0 forbidden, 2 a sign of a difference."""
        return torch.tensor((canvas or self.matrix).evaluate(INKED, self.n))

    def button(self, name: str) -> Locator:
        return self.box.get_by_role("button", name=name, exact=True)

    def check(self, name: str) -> Locator:
        return self.box.get_by_role("checkbox", name=name)

    def slider(self, name: str) -> Locator:
        return self.box.get_by_role("slider", name=name, exact=True)

    def menu(self, name: str) -> Locator:
        return self.box.get_by_label(name)

    def alert(self) -> str:
        found = self.box.get_by_role("alert")
        return found.text_content() if found.count() else ""

    def at(self, i: int, j: int) -> tuple[float, float]:
        """The middle of a cell on the screen."""
        frame, n = self.matrix.bounding_box(), self.n
        size = frame["width"] / n
        return frame["x"] + (j + 0.5) * size, frame["y"] + (i + 0.5) * size

    def drag(self, *cells: tuple[int, int]) -> None:
        self.matrix.scroll_into_view_if_needed()
        self.page.mouse.move(*self.at(*cells[0]))
        self.page.mouse.down()
        for cell in cells[1:]:
            self.page.mouse.move(*self.at(*cell))
        self.page.mouse.up()

    def swipe(self, *cells: tuple[int, int]) -> None:
        """A finger on a touch screen."""
        self.matrix.scroll_into_view_if_needed()
        session = self.page.context.new_cdp_session(self.page)
        for number, cell in enumerate(cells):
            x, y = self.at(*cell)
            kind = "touchMove" if number else "touchStart"
            points = {"type": kind, "touchPoints": [{"x": x, "y": y}]}
            session.send("Input.dispatchTouchEvent", points)
        session.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})


def evaluated(expression: str, n: int) -> torch.Tensor:
    """The mask of an expression, with nothing but the names that its reader has."""
    return eval(expression, {"torch": torch, **NAMES}).mask(n)


def expected_numbers(mask: torch.Tensor, block_size: int = 4) -> dict[str, str]:
    """What the studio should say of a mask, by other code than its own."""
    n, edges = len(mask), int(mask.sum())
    rows = mask.sum(dim=1)
    lengths = path_lengths(mask)
    finite = lengths[lengths.isfinite()]
    longest, never = int(finite.max()), int(lengths.isinf().sum())
    path = f"{longest} layer{'s' * (longest != 1)}"
    if never and (parts := n_components(mask)) > 1:
        path = f"disconnected, {parts} components"
    elif never:
        path += f", {never:,} pair{'s' * (never != 1)} never"
    starts = range(0, n, block_size)
    blocks = [mask[i : i + block_size, j : j + block_size] for i in starts for j in starts]
    return {
        "pairs": f"{edges:,} of {n * n:,}",
        "density": f"{100 * edges / n**2:.3g} %",
        "keys": f"{int(rows.min())}, {edges / n:.3g}, {int(rows.max())}",
        "flops": f"{2 * 64 * edges:,}",
        "path": path,
        "blocks": f"{sum(bool(block.any()) for block in blocks):,} of {len(blocks):,}",
    }
