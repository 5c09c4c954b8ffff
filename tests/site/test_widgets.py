"""Widgets work on the published page, where there is no kernel."""

import pytest
from playwright.sync_api import Locator

from .pages import CHAPTERS

# What a reader sees of a widget, without the state of its controls.
PICTURE = """widget => [
  widget.innerText,
  ...[...widget.querySelectorAll("img")].map(image => image.src),
  ...[...widget.querySelectorAll("canvas")].map(canvas => canvas.toDataURL()),
  ...[...widget.querySelectorAll("svg")].map(drawing => drawing.outerHTML),
].join(" ")"""


def operate(control: Locator) -> None:
    """Move a control as the keyboard does."""
    control.focus()
    at_end = control.evaluate("it => it.type == 'range' && it.value == it.max")
    control.press("ArrowLeft" if at_end else "ArrowRight")


@pytest.mark.parametrize("scheme", ["http", "file"])
@pytest.mark.parametrize("path", CHAPTERS)
def test_sliders_change_the_picture(visit, path, scheme):
    seen = visit(path, scheme=scheme)
    assert seen.page.locator(".tinyattn-widget-error").count() == 0
    for widget in seen.page.locator("[data-tinyattn-widget]").all():
        if widget.get_attribute("data-tinyattn-widget") == "study":
            continue  # quizzes and lists have no slider; tests/show asks them
        before = widget.evaluate(PICTURE)
        operate(widget.locator("input[type=range]").first)
        assert widget.evaluate(PICTURE) != before, "the slider moved and nothing changed"
    assert seen.errors == []
