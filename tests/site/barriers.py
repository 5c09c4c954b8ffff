"""What shuts readers out of a page, as far as a program can tell."""

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page


def text_in_the_colour_of_its_background(found: dict) -> list[str]:
    """Invisible text, which axe only doubts: it might be hidden on purpose."""
    return [
        node["html"]
        for rule in found["incomplete"]
        for node in rule["nodes"]
        for check in node["any"]
        if (check["data"] or {}).get("messageKey") == "equalRatio"
    ]


def barriers(page: Page) -> None:
    """Fails with what axe finds.

    Left to itself axe loads style sheets once more, and those that others import from where they
    are not: the page's console would have an error of its tests.
    """
    options = {"resultTypes": ["violations"], "preload": False}
    found = Axe().run(page, options={**options, "selectors": False})  # a tenth of its time
    if found.violations_count:
        found = Axe().run(page, options=options)
    assert found.violations_count == 0, found.generate_report()
    unseen = text_in_the_colour_of_its_background(found.response)
    assert unseen == [], unseen
