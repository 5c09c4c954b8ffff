"""The sliders of `explore` as readers meet them: in a browser, without a kernel."""

import html
import json

import matplotlib.pyplot as plt
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Locator, Page

from tinyattn.patterns import Causal
from tinyattn.show import describe_mask, draw_mask, explore, style
from tinyattn.show.widgets import STATIC
from tinybook.widgets import as_function_body

SIZES = [3, 4, 6, 9]
HOSTILE = "</script><img src=x onerror='window.harmed = true'>"


def drawn(n):
    return draw_mask(Causal(), n), describe_mask(Causal(), n)


def masks(**parameters):
    return explore(drawn, **parameters).page_html()


def wrong(state: object) -> str:
    """A widget whose state is broken, around a still."""
    data = state if isinstance(state, str) else json.dumps(state)
    return (
        f'<div data-tinyattn-widget="frames" data-state="{html.escape(data)}">'
        '<img src="data:," alt="still">words of the still</div>'
    )


def sliders(page: Page) -> list[Locator]:
    return page.get_by_role("slider").all()


def seen(page: Page, widget: int = 0) -> dict[str, object]:
    """Everything a reader perceives of one widget."""
    return (
        page.locator("[data-tinyattn-widget]")
        .nth(widget)
        .evaluate(
            """async widget => {
            const image = widget.querySelector("img");
            await image.decode();
            const canvas = document.createElement("canvas");
            [canvas.width, canvas.height] = [image.naturalWidth, image.naturalHeight];
            canvas.getContext("2d").drawImage(image, 0, 0);
            return {
                picture: canvas.toDataURL(),
                alt: image.alt,
                value: widget.querySelector(".tinyattn-value").textContent,
                spoken: widget.querySelector("input").getAttribute("aria-valuetext"),
                announced: widget.querySelector("[aria-live]").textContent,
            };
        }"""
        )
    )


def click_at_end(slider: Locator) -> None:
    box = slider.bounding_box()
    slider.page.mouse.click(box["x"] + box["width"] - 3, box["y"] + box["height"] / 2)


def drag_to_end(slider: Locator) -> None:
    box, mouse = slider.bounding_box(), slider.page.mouse
    middle = box["y"] + box["height"] / 2
    mouse.move(box["x"] + 8, middle)
    mouse.down()
    mouse.move(box["x"] + box["width"] - 3, middle, steps=5)
    mouse.up()


def tap_at_end(slider: Locator) -> None:
    box = slider.bounding_box()
    slider.page.touchscreen.tap(box["x"] + box["width"] - 3, box["y"] + box["height"] / 2)


def tab_and_press_end(slider: Locator) -> None:
    slider.page.keyboard.press("Tab")
    slider.page.keyboard.press("End")


@pytest.mark.parametrize("move", [tab_and_press_end, click_at_end, drag_to_end, tap_at_end])
def test_a_slider_changes_picture_and_words(open_page, move):
    page = open_page(masks(n=SIZES), has_touch=move is tap_at_end)
    before = seen(page)
    assert (before["value"], before["alt"]) == ("3", describe_mask(Causal(), 3))
    (slider,) = sliders(page)
    move(slider)
    after = seen(page)
    assert after["picture"] != before["picture"]
    assert after["alt"] == describe_mask(Causal(), 9)
    assert (after["value"], after["spoken"]) == ("9", "9")
    assert after["announced"] == f"n = 9. {describe_mask(Causal(), 9)}"


def test_each_step_of_the_arrow_keys_is_one_value(open_page):
    page = open_page(masks(n=SIZES))
    slider = page.get_by_role("slider", name="n", exact=True)
    slider.focus()
    values = []
    for key in ["ArrowRight", "ArrowRight", "ArrowRight", "ArrowRight", "ArrowLeft", "Home"]:
        slider.press(key)
        values.append((seen(page)["value"], seen(page)["alt"]))
    assert values == [(str(n), describe_mask(Causal(), n)) for n in (4, 6, 9, 9, 6, 3)]


def test_two_sliders_choose_among_all_pairs(open_page):
    page = open_page(explore(lambda a, b: f"a is {a}, b is {b}", a=[1, 2], b=[5, 6, 7]).page_html())
    first, second = sliders(page)
    text = page.locator("pre")
    assert text.text_content() == "a is 1, b is 5"
    second.press("End")
    assert text.text_content() == "a is 1, b is 7"
    first.press("End")
    assert text.text_content() == "a is 2, b is 7"
    second.press("ArrowLeft")
    assert text.text_content() == "a is 2, b is 6"


def test_two_widgets_do_not_interfere(open_page):
    page = open_page(masks(n=[3, 6]), masks(n=[4, 9]))
    first, second = sliders(page)
    other = seen(page, 1)
    first.press("End")
    assert seen(page, 0)["alt"] == describe_mask(Causal(), 6)
    assert seen(page, 1) == other
    second.press("End")
    assert seen(page, 0)["alt"] == describe_mask(Causal(), 6)
    assert seen(page, 1)["alt"] == describe_mask(Causal(), 9)


GOOD = {"names": ["n"], "labels": [["1", "2"]], "index": [0], "frames": [{"alt": "a"}, {}]}


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        ("{not json", "JSON"),
        ("null", ""),
        ([], "no parameter"),
        (GOOD | {"names": []}, "no parameter"),
        (GOOD | {"labels": [[]]}, "a parameter has no values"),
        (GOOD | {"labels": 3}, "a parameter has no values"),
        (GOOD | {"frames": [{}]}, "it needs 2 frames"),
        (GOOD | {"frames": [{}, None]}, "it needs 2 frames"),
        (GOOD | {"index": [2]}, "its sliders stand outside their values"),
        (GOOD | {"index": [-1]}, "its sliders stand outside their values"),
        (GOOD | {"index": [0.5]}, "its sliders stand outside their values"),
        (GOOD | {"index": "0"}, "its sliders stand outside their values"),
    ],
)
def test_broken_state_is_said_and_leaves_the_still_and_the_others(open_page, state, reason):
    page = open_page(wrong(state), masks(n=SIZES))
    broken = page.locator("[data-tinyattn-widget]").first
    assert reason in broken.get_by_role("alert").text_content()
    assert broken.get_by_alt_text("still").count() == 1
    assert "words of the still" in broken.text_content()
    (slider,) = sliders(page)
    slider.press("End")
    assert seen(page, 1)["alt"] == describe_mask(Causal(), 9)


def test_a_setting_without_a_picture_says_so(open_page):
    page = open_page(wrong(GOOD))
    sliders(page)[0].press("End")
    assert page.locator(".tinyattn-picture").text_content() == (
        "There is no picture for this setting."
    )


def test_words_cannot_become_markup(open_page):
    def f(word):
        return f"text {word}"

    page = open_page(explore(f, word=[HOSTILE, HOSTILE + "2"]).page_html())
    sliders(page)[0].press("End")
    assert page.locator("pre").text_content() == f"text {HOSTILE}2"
    assert page.locator("img").count() == 0
    assert page.evaluate("window.harmed") is None


def test_without_javascript_the_first_frame_and_its_words_remain(open_page):
    phone = {"width": 360, "height": 740}
    page = open_page(masks(n=[20, 40]), java_script_enabled=False, viewport=phone)
    image = page.get_by_role("img")
    assert image.get_attribute("alt") == describe_mask(Causal(), 20)
    box = image.bounding_box()
    assert 250 < box["width"] < 360 - box["x"]
    assert page.get_by_text("n = 20. With JavaScript, n can be 20, 40.").is_visible()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing(open_page, theme):
    texts = explore(lambda n: f"{n} keys", n=[1, 2]).page_html()
    page = open_page(masks(n=SIZES), texts, wrong("{"), theme=theme, color_scheme=theme)
    result = Axe().run(page)
    assert result.violations_count == 0, result.generate_report()
    # Words in the very colour of their ground are "incomplete" to axe.
    assert [check["id"] for check in result.response["incomplete"]] == []


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_focus_ring_stands_out(open_page, theme):
    page = open_page(masks(n=SIZES), theme=theme, color_scheme=theme)
    page.keyboard.press("Tab")
    style, width, ring, ground = sliders(page)[0].evaluate(
        """it => { const look = getComputedStyle(it);
        return [look.outlineStyle, look.outlineWidth, look.outlineColor,
                getComputedStyle(document.body).backgroundColor]; }"""
    )
    assert (style, width) == ("solid", "3px")
    assert contrast(ring, ground) >= 3


def contrast(one: str, other: str) -> float:
    """WCAG contrast of two `rgb(r, g, b)` colours."""
    light, dark = sorted((luminance(colour) for colour in (one, other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def luminance(colour: str) -> float:
    channels = [int(c) / 255 for c in colour.removeprefix("rgb(").rstrip(")").split(",")]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return sum(share * c for share, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def test_a_narrow_screen_needs_no_scrolling_sideways(open_page):
    words = ["an unusually long value of a parameter", "a short one"]
    page = open_page(
        masks(n=[3, 40]),
        explore(lambda parameter: f"{parameter} " * 20, parameter=words).page_html(),
        viewport={"width": 360, "height": 740},
    )
    for slider in sliders(page):
        slider.press("End")
        box = slider.bounding_box()
        assert box["height"] >= 44  # a thumb
        assert box["width"] >= 64
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_on_a_phone_a_button_shows_a_wide_picture_in_its_size(open_page):
    def wide(n):
        with style():
            fig, ax = plt.subplots(figsize=(7, 3))
        ax.plot(range(n))
        return fig, f"A line that rises to {n}, drawn seven inches wide."

    page = open_page(explore(wide, n=[5, 9]).page_html(), viewport={"width": 360, "height": 740})
    button = page.get_by_role("button", name="Larger picture")
    assert button.bounding_box()["height"] >= 44  # a thumb
    image = page.get_by_role("img")
    assert image.bounding_box()["width"] < 360
    button.click()
    assert button.get_attribute("aria-pressed") == "true"
    assert image.bounding_box()["width"] == 700
    assert page.evaluate("document.documentElement.scrollWidth") <= 360  # the picture's box scrolls
    sliders(page)[0].press("End")
    assert image.bounding_box()["width"] == 700
    assert Axe().run(page).violations_count == 0
    button.click()
    assert image.bounding_box()["width"] < 360


def test_a_small_picture_and_a_wide_screen_have_no_such_button(open_page):
    small = masks(n=[3, 4])
    text = explore(lambda n: f"{n} keys", n=[1, 2]).page_html()
    phone = open_page(text, viewport={"width": 360, "height": 740})
    assert phone.get_by_role("button").count() == 0
    phone = open_page(small, viewport={"width": 360, "height": 740})
    assert phone.get_by_role("button", name="Larger picture").count() == 0
    assert open_page(small).get_by_role("button", name="Larger picture").count() == 0


def test_the_slider_stays_where_it_is_while_values_change(open_page):
    page = open_page(explore(lambda n: f"{n} keys", n=[1, 1000]).page_html())
    (slider,) = sliders(page)
    before = slider.bounding_box()
    slider.press("End")
    assert slider.bounding_box() == before


def test_print_shows_a_still(open_page):
    page = open_page(masks(n=SIZES))
    page.emulate_media(media="print")
    assert page.get_by_text("n =", exact=True).is_visible()
    assert page.get_by_role("img").is_visible()
    assert not page.locator("input").is_visible()


LIVE = """code => {
    const listeners = [];
    window.state = { names: ["n"], labels: [["1", "2"]], index: [0], frame: { text: "one", index: [0] } };
    window.saved = 0;
    const model = {
        get: key => state[key],
        set: (key, value) => { state[key] = value; tell(`change:${key}`); },
        on: (event, f) => listeners.push([event, f]),
        off: (event, f) => listeners.splice(listeners.findIndex(it => it[0] == event && it[1] == f), 1),
        save_changes: () => { saved += 1; },
    };
    const tell = event => listeners.filter(it => it[0] == event).forEach(it => it[1]());
    window.listeners = listeners;
    window.answer = frame => model.set("frame", frame);
    const el = document.createElement("div");
    document.querySelector("main").append(el);
    window.leave = new Function(code)().render({ model, el });
}"""


@pytest.fixture
def live(open_page) -> Page:
    """A widget whose Python side is played by the test."""
    page = open_page()
    page.evaluate(LIVE, as_function_body(STATIC / "frames.js"))
    return page


def test_live_the_slider_asks_python_and_waits_for_its_frame(live):
    box, text = live.get_by_role("group"), live.locator("pre")
    assert (text.text_content(), box.get_attribute("aria-busy")) == ("one", "false")
    sliders(live)[0].press("End")
    assert live.evaluate("[state.index, saved]") == [[1], 1]
    assert (text.text_content(), box.get_attribute("aria-busy")) == ("one", "true")
    live.evaluate("answer({ text: 'late answer to another question', index: [0] })")
    assert (text.text_content(), box.get_attribute("aria-busy")) == ("one", "true")
    live.evaluate("answer({ text: 'two', index: [1] })")
    assert (text.text_content(), box.get_attribute("aria-busy")) == ("two", "false")


def test_live_an_error_is_shown_until_the_next_frame(live):
    sliders(live)[0].press("End")
    live.evaluate("answer({ error: 'ValueError: <b>no</b>', index: [1] })")
    assert live.locator(".tinyattn-widget-error").text_content() == "ValueError: <b>no</b>"
    sliders(live)[0].press("Home")
    live.evaluate("answer({ text: 'one', index: [0] })")
    assert live.locator(".tinyattn-picture").text_content() == "one"


def test_live_a_closed_view_stops_listening(live):
    assert live.evaluate("listeners.length") == 2
    live.evaluate("leave()")
    assert live.evaluate("listeners.length") == 0
