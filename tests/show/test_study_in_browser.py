"""Quizzes and lists as readers meet them: in a browser, without a kernel, remembered by it."""

import json

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from tinyattn.show import Checklist, quiz

STORED = "JSON.parse(localStorage.getItem('tinyattn-progress') ?? '{}')"
QUIZ = quiz(
    "atomic/keys",
    "Window(w): how many keys does an inner query read?",
    {"2w": "Its own key is missing.", "2w + 1": "w on each side, and its own.", "w": "Both sides."},
    right="2w + 1",
).page_html()
LIST = Checklist(
    "Solved",
    {
        "Atoms": {"atomic/window": "A window", "atomic/global": "Global"},
        "LSH": {"lsh/hash": "Hash"},
    },
    overview=True,
).page_html()


def said(page):
    return page.get_by_role("status").first


def test_every_choice_is_explained_and_a_right_one_is_remembered(open_page):
    page = open_page(QUIZ)
    page.get_by_role("button", name="Check").click()
    expect(said(page)).to_have_text("Choose an answer first.")
    page.get_by_label("2w", exact=True).check()
    page.get_by_role("button", name="Check").click()
    expect(said(page)).to_have_text("Not that one. Its own key is missing.")
    page.get_by_label("2w + 1").check()
    expect(said(page)).to_have_text("")
    page.get_by_role("button", name="Check").click()
    expect(said(page)).to_have_text("Right. w on each side, and its own.")
    assert page.evaluate(STORED) == {"quiz:atomic/keys": {"right": True, "tries": 2}}
    page.reload()
    expect(said(page)).to_have_text("You answered this one before.")


def test_a_quiz_needs_only_the_keyboard(open_page):
    page = open_page(QUIZ)
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(said(page)).to_have_text("Right. w on each side, and its own.")


def test_two_quizzes_on_a_page_do_not_share_their_answer(open_page):
    page = open_page(QUIZ, QUIZ.replace("atomic/keys", "atomic/more"))
    first, second = page.get_by_label("2w", exact=True).all()
    first.check()
    second.check()
    assert first.is_checked()


def test_ticks_survive_a_reload_and_are_counted_with_the_questions(open_page):
    page = open_page(LIST, QUIZ)
    page.get_by_label("Global").check()
    page.get_by_label("2w + 1").check()
    page.get_by_role("button", name="Check").click()
    page.reload()
    expect(page.get_by_label("Global")).to_be_checked()
    expect(
        page.get_by_role("group", name="Atoms: 1 of 2 exercises, 1 question right")
    ).to_be_visible()
    expect(page.get_by_role("group", name="LSH: 0 of 1 exercises")).to_be_visible()


def test_progress_can_be_saved_forgotten_and_loaded_again(open_page, tmp_path):
    page = open_page(LIST)
    page.get_by_label("Global").check()
    with page.expect_download() as download:
        page.get_by_role("button", name="Save").click()
    saved = tmp_path / "saved.json"
    download.value.save_as(saved)
    assert json.loads(saved.read_text()) == {"done:atomic/global": True}
    page.get_by_role("button", name="Forget").click()
    expect(page.get_by_label("Global")).to_be_checked()
    page.get_by_role("button", name="Forget").click()
    expect(page.get_by_label("Global")).not_to_be_checked()
    page.set_input_files("input[type=file]", saved)
    expect(page.get_by_label("Global")).to_be_checked()


@pytest.mark.parametrize("content", ["{", "[]", "null", '{"other": 1}'])
def test_a_file_without_progress_changes_nothing(open_page, tmp_path, content):
    page = open_page(LIST)
    page.get_by_label("A window").check()
    (tmp_path / "bad.json").write_text(content)
    page.set_input_files("input[type=file]", tmp_path / "bad.json")
    expect(page.get_by_role("status")).to_contain_text("That file was not used")
    assert page.evaluate(STORED) == {"done:atomic/window": True}


@pytest.mark.parametrize("stored", ["{", "[]", "null", '"x"'])
def test_broken_storage_does_not_stop_the_page(open_page, stored):
    page = open_page(QUIZ, LIST)
    page.evaluate("stored => localStorage.setItem('tinyattn-progress', stored)", stored)
    page.reload()
    page.get_by_label("Global").check()
    assert page.evaluate(STORED) == {"done:atomic/global": True}


def test_a_browser_that_keeps_nothing_still_answers(open_page):
    page = open_page(QUIZ, LIST)
    page.evaluate("() => { Storage.prototype.setItem = () => { throw new Error('refused') } }")
    page.get_by_label("2w + 1").check()
    page.get_by_role("button", name="Check").click()
    expect(said(page)).to_have_text("Right. w on each side, and its own.")
    page.get_by_label("Global").check()
    expect(page.get_by_role("status").last).to_have_text(
        "This browser keeps nothing for this page."
    )


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing(open_page, theme):
    page = open_page(QUIZ, LIST, theme=theme, color_scheme=theme)
    page.get_by_label("2w", exact=True).check()
    page.get_by_role("button", name="Check").click()
    results = Axe().run(page)
    assert results.response["violations"] == []


def test_a_long_question_stands_inside_its_frame(open_page):
    page = open_page(QUIZ, viewport={"width": 200, "height": 700})
    field, question = (page.locator(name).bounding_box() for name in ("fieldset", "legend"))
    assert question["height"] > 40, "one line says nothing"
    assert question["y"] > field["y"] + 2


def test_it_fits_a_phone(open_page):
    page = open_page(QUIZ, LIST, viewport={"width": 360, "height": 700})
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
