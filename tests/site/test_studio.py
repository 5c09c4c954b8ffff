"""The studio on its page: its words and buttons, and the pictures of it that are stored."""

import io

import numpy as np
import pytest
from PIL import Image

import studio_pictures


@pytest.mark.parametrize("width", [360, 1280])
def test_its_buttons_stand_in_one_row_and_its_words_start_at_the_left(visit, width):
    page = visit(studio_pictures.PAGE, width=width).settle().page
    studio = page.locator(".tinyattn-studio").first
    names = ["Look", "Paint", "Erase", "Undo", "Redo", "Reset"]
    boxes = [studio.get_by_role("button", name=name, exact=True).bounding_box() for name in names]
    assert len({box["y"] for box in boxes}) == 1
    assert min(box["width"] for box in boxes) > 40  # a thumb meets them still
    left = studio.locator(".tinyattn-studio-right").bounding_box()["x"]
    reading = studio.locator(".tinyattn-studio-reading")
    starts = reading.evaluate(
        "p => { const range = document.createRange(); range.selectNodeContents(p);"
        " return [...range.getClientRects()].map(line => line.left); }"
    )
    assert starts
    assert max(starts) < left + 1


def test_a_number_of_one_column_is_not_broken_on_a_phone(visit):
    page = visit(studio_pictures.PAGE, width=360).settle().page
    cells = page.locator(".tinyattn-studio").first.locator("td:not([hidden])")
    heights = cells.evaluate_all(
        "cells => cells.map(cell => { const range = document.createRange();"
        " range.selectNodeContents(cell);"
        " return new Set([...range.getClientRects()].map(line => line.top)).size; })"
    )
    assert heights == [1] * 6


@pytest.mark.parametrize("name", studio_pictures.PICTURES)
def test_a_stored_picture_shows_what_the_studio_shows(browser, server, name):
    """`make pictures` takes them anew; letters may be of another font here."""
    taken = studio_pictures.take(browser, server.address, studio_pictures.PICTURES[name])
    with Image.open(io.BytesIO(taken)) as now, Image.open(studio_pictures.file_of(name)) as stored:
        assert np.allclose(now.size, stored.size, atol=40)
        grey = [np.asarray(image.convert("L").resize((90, 120)), float) for image in (now, stored)]
    assert np.abs(grey[0] - grey[1]).mean() < 4  # another n, or another model: 5 or more
