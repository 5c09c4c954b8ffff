"""Drives a Mask Studio on a page, and computes in Python what it should show."""

from __future__ import annotations

import math

import torch
from playwright.sync_api import Locator, Page

import tinyattn.patterns
from tinyattn.analysis.graphs import n_components, path_lengths

NAMES = {name: getattr(tinyattn.patterns, name) for name in tinyattn.patterns.__all__}

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
