"""What a pixel knows, as readers find out: in a browser, without a kernel."""

import html
import json
import random

import pytest
import torch
from axe_playwright_python.sync_playwright import Axe

from tinyattn.analysis import first_seen
from tinyattn.patterns import Causal, axial_columns, axial_rows, image_1d, image_2d
from tinyattn.show import PixelStudio
from tinyattn.show.pixels import _described
from tinyattn.show.widgets import STATIC
from tinybook.widgets import as_function_body

PHONE = {"width": 360, "height": 740}
HEIGHT, WIDTH = 9, 12
ROWS, COLUMNS = axial_rows(WIDTH), axial_columns(WIDTH)
STACKS = {
    "1-D": [image_1d(2 * WIDTH, 5)] * 3,
    "2-D": [image_2d(HEIGHT, WIDTH, (4, 5), (2, 1))] * 3,
    "axial": [ROWS & Causal(), COLUMNS & Causal(), ROWS & Causal()],
}


def studio(**options):
    light = torch.linspace(40, 215, HEIGHT * WIDTH).view(HEIGHT, WIDTH)
    return PixelStudio(light, STACKS, pixel=(4, 6), **options)


class Shown:
    """One studio of a page, as a reader operates and sees it."""

    def __init__(self, page, number=0):
        self.page = page
        self.box = page.locator(".tinyattn-pixels").nth(number)
        self.picture = self.box.locator("canvas")

    @property
    def said(self):
        return self.box.locator("[aria-live]").text_content()

    @property
    def counts(self):
        rows = self.box.locator("tbody tr").all()
        return [
            [int(x.replace(",", "")) for x in row.locator("td").all_text_contents()] for row in rows
        ]

    def slider(self, name):
        return self.box.get_by_role("slider", name=name, exact=True)

    def button(self, name):
        return self.box.get_by_role("button", name=name, exact=True)

    def at(self, row, col):
        frame = self.picture.bounding_box()
        return (
            frame["x"] + (col + 0.5) * frame["width"] / WIDTH,
            frame["y"] + (row + 0.5) * frame["height"] / HEIGHT,
        )

    def is_now(self, it):
        """Everything it says, and the picture, are what Python computes."""
        assert self.said == it.description
        counted = []
        for name in STACKS:
            seen = it.seen(name)
            counted.append([int(((seen > 0) & (seen <= m)).sum()) for m in (1, 2, 3)])
        assert self.counts == counted
        seen = it.seen()
        layers = torch.where(seen <= it.n_layers, seen, 0)
        assert torch.equal(self.coloured()[apart(it.pixel)], layers[apart(it.pixel)])
        assert self.button(it.model).get_attribute("aria-pressed") == "true"
        assert self.box.locator("[aria-pressed=true]").count() == 1

    def coloured(self):
        """The layer whose colour each pixel of the picture has."""
        light = [int(x) for x in torch.linspace(40, 215, HEIGHT * WIDTH).round()]
        return torch.tensor(self.picture.evaluate(COLOURED, [HEIGHT, WIDTH, light]))


def apart(pixel):
    """The pixels that the mark of the chosen one does not touch."""
    free = torch.ones(HEIGHT, WIDTH, dtype=torch.bool)
    row, col = pixel
    free[max(0, row - 1) : row + 2, max(0, col - 1) : col + 2] = False
    return free


COLOURED = """(canvas, [height, width, light]) => {
    const look = getComputedStyle(canvas.closest(".tinyattn-pixels"));
    const names = ["--studio-paper", "--pixels-first", "--pixels-second", "--pixels-third"];
    const tints = names.map(name => look.getPropertyValue(name).trim().slice(1).match(/../g)
        .map(part => parseInt(part, 16)));
    const pen = canvas.getContext("2d");
    return Array.from({ length: height }, (_, row) => Array.from({ length: width }, (_, col) => {
        const x = Math.floor((col + 0.6) * canvas.width / width);
        const y = Math.floor((row + 0.6) * canvas.height / height);
        const colour = [...pen.getImageData(x, y, 1, 1).data].slice(0, 3);
        const off = tints.map((tint, layers) => {
            const share = layers ? 0.55 : 0.8, own = light[row * width + col];
            return tint.reduce((sum, part, k) =>
                sum + Math.abs(own * (1 - share) + part * share - colour[k]), 0);
        });
        return off.indexOf(Math.min(...off));
    }));
}"""


@pytest.fixture
def open_studio(open_page):
    def open_studio(*studios, **options):
        return Shown(open_page(*(it.page_html() for it in studios), **options))

    return open_studio


# The rules of the page are those of Python

KEYS = """([code, cases]) => {
    const module = new Function(code.replace("return { render }", "return { firstSeen }"))();
    return cases.map(([rules, at, height, width]) =>
        [...module.firstSeen(rules, at, { height, width })]);
}"""


def test_every_pixel_of_pictures_of_all_shapes_reads_what_python_says(open_page):
    rng, seed = random.Random(67), 67
    cases, expected = [], []
    for _ in range(300):
        height, width = rng.randint(1, 9), rng.randint(1, 9)
        rules = [random_rule(rng, height, width) for _ in range(rng.randint(1, 3))]
        at = rng.randrange(height * width)
        cases.append([[_described(rule, height, width) for rule in rules], at, height, width])
        expected.append(first_seen(rules, at, height * width).tolist())
    whole = STACKS["2-D"][:1], STACKS["axial"][:2], STACKS["1-D"][:1]
    for rules in whole:  # and every pixel of one picture
        for at in range(HEIGHT * WIDTH):
            cases.append([[_described(rule, HEIGHT, WIDTH) for rule in rules], at, HEIGHT, WIDTH])
            expected.append(first_seen(rules, at, HEIGHT * WIDTH).tolist())
    page = open_page()
    found = page.evaluate(KEYS, [as_function_body(STATIC / "pixels.js"), cases])
    for case, one, other in zip(cases, found, expected, strict=True):
        assert one == other, f"{case}, seed {seed}"


def random_rule(rng, height, width):
    kind = rng.randrange(4)
    if kind == 0:
        return image_1d(rng.randint(1, 12), rng.randint(0, 9))
    if kind == 1:
        block = rng.randint(1, 5), rng.randint(1, 5)
        flange = rng.randint(0, 4), rng.randint(0, 4)
        return image_2d(height, width, block, flange, causal=rng.random() < 0.6)
    rule = axial_rows(width) if kind == 2 else axial_columns(width)
    return rule & Causal() if rng.random() < 0.5 else rule


# By mouse, touch and keyboard


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_what_is_seen_and_said_is_what_python_computes(open_studio, theme):
    it = studio()
    shown = open_studio(it, theme=theme)
    shown.is_now(it)
    for name in STACKS:
        shown.button(name).click()
        it.model = name
        for m in (1, 2, 3):
            shown.slider("layers").fill(str(m))
            it.n_layers = m
            shown.is_now(it)


@pytest.mark.parametrize("way", ["mouse", "touch"])
def test_any_pixel_is_chosen_by_pointing_at_it(open_studio, way):
    it = studio()
    shown = open_studio(it, has_touch=way == "touch")
    shown.picture.scroll_into_view_if_needed()
    for place in [(0, 0), (8, 11), (3, 7), (8, 0)]:
        if way == "mouse":
            shown.page.mouse.click(*shown.at(*place))
        else:
            shown.page.touchscreen.tap(*shown.at(*place))
        it.pixel = list(place)
        shown.is_now(it)


def test_the_pixel_follows_a_mouse_that_drags_and_no_other(open_studio):
    it = studio()
    shown = open_studio(it)
    shown.picture.scroll_into_view_if_needed()
    shown.page.mouse.move(*shown.at(2, 2))
    shown.is_now(it)
    shown.page.mouse.down()
    shown.page.mouse.move(*shown.at(5, 9))
    it.pixel = [5, 9]
    shown.is_now(it)
    shown.page.mouse.up()
    shown.page.mouse.move(*shown.at(1, 1))
    shown.is_now(it)


def test_a_finger_that_scrolls_chooses_nothing(open_studio):
    it = studio()
    shown = open_studio(it, viewport=PHONE, has_touch=True, is_mobile=True)
    session = shown.page.context.new_cdp_session(shown.page)
    for number, place in enumerate([(7, 3), (5, 3), (2, 3)]):
        x, y = shown.at(*place)
        kind = "touchMove" if number else "touchStart"
        point = {"type": kind, "touchPoints": [{"x": x, "y": y}]}
        session.send("Input.dispatchTouchEvent", point)
    session.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    assert shown.said == it.description


def test_arrow_keys_move_the_pixel_and_stop_at_the_borders(open_studio):
    it = studio()
    shown = open_studio(it)
    steps = [
        ("ArrowRight", [4, 7]),
        ("ArrowDown", [5, 7]),
        ("ArrowLeft", [5, 6]),
        ("ArrowUp", [4, 6]),
        ("Shift+ArrowRight", [4, 11]),
        ("ArrowRight", [4, 11]),
        ("PageUp", [0, 11]),
        ("ArrowUp", [0, 11]),
        ("Home", [0, 0]),
        ("Shift+ArrowDown", [5, 0]),
        ("PageDown", [8, 0]),
        ("End", [8, 11]),
    ]
    for key, place in steps:
        shown.picture.press(key)
        it.pixel = place
        shown.is_now(it)


def test_sliders_choose_row_and_column(open_studio):
    it = studio()
    shown = open_studio(it)
    shown.slider("row").press("End")
    shown.slider("column").press("Home")
    it.pixel = [8, 0]
    shown.is_now(it)


def test_a_step_is_one_redraw_and_takes_no_time(open_page, record_property):
    big = PixelStudio(
        torch.zeros(60, 51),
        {
            "1-D": [image_1d(153, 51)] * 3,
            "2-D": [image_2d(60, 51, 10, 5)] * 3,
            "axial": [axial_rows(51), axial_columns(51), axial_rows(51)],
        },
        pixel=(50, 40),
    )
    shown = Shown(open_page(big.page_html()))
    times = []
    for _ in range(8):
        before = int(shown.box.get_attribute("data-draws"))
        shown.picture.press("ArrowRight")
        assert int(shown.box.get_attribute("data-draws")) == before + 1
        times.append(float(shown.box.get_attribute("data-milliseconds")))
    median = sorted(times)[len(times) // 2]
    record_property("median milliseconds of a step on 60 x 51 pixels", median)
    assert median < 200, times  # a machine without a graphics card


# Any state is survivable

GOOD = studio().page_state()
WRONG = [
    ("{not json", "JSON"),
    ({}, "its picture is missing"),
    (GOOD | {"picture": {"height": 3, "width": 3, "grey": "AAAA"}}, "another size"),
    (GOOD | {"models": []}, "it has no model"),
    (GOOD | {"models": [{"name": "a"}]}, "its models differ in layers"),
    (GOOD | {"models": [{"name": "a", "rules": [{"kind": "<b>"}]}]}, "there is no rule “<b>”"),
    (GOOD | {"pixel": [9, 0]}, "there is no pixel 9,0 here"),
    (GOOD | {"pixel": "4"}, "there is no pixel 4 here"),
    (GOOD | {"model": "x"}, "there is no model “x”"),
    (GOOD | {"n_layers": 4}, "there are 1 to 3 layers here"),
]


@pytest.mark.parametrize(("state", "reason"), WRONG)
def test_broken_state_is_said_and_leaves_the_still_and_the_others(open_page, state, reason):
    data = state if isinstance(state, str) else json.dumps(state)
    broken = (
        f'<div data-tinyattn-widget="pixels" data-state="{html.escape(data)}">'
        "words of the still</div>"
    )
    page = open_page(broken, studio().page_html())
    widget = page.locator("[data-tinyattn-widget]").first
    assert reason in widget.get_by_role("alert").text_content()
    assert "words of the still" in widget.text_content()
    Shown(page).is_now(studio())


def test_two_studios_do_not_interfere(open_page):
    one, other = studio(), studio()
    page = open_page(one.page_html(), other.page_html())
    Shown(page, 0).picture.press("Home")
    one.pixel = [4, 0]
    Shown(page, 0).is_now(one)
    Shown(page, 1).is_now(other)


LIVE = """([code, state]) => {
    const listeners = [];
    window.state = state;
    window.saved = 0;
    const tell = event => listeners.filter(it => it[0] == event).forEach(it => it[1]());
    const model = {
        get: key => state[key],
        set: (key, value) => { state[key] = value; tell(`change:${key}`); },
        on: (event, f) => listeners.push([event, f]),
        off: (event, f) => listeners.splice(listeners.findIndex(it => it[0] == event && it[1] == f), 1),
        save_changes: () => { saved += 1; },
    };
    window.listeners = listeners;
    window.assign = model.set;
    const el = document.createElement("div");
    document.querySelector("main").append(el);
    window.leave = new Function(code)().render({ model, el });
}"""


def test_live_the_choice_reaches_python_and_back(open_page):
    it, page = studio(), open_page()
    page.evaluate(LIVE, [as_function_body(STATIC / "pixels.js"), it.page_state()])
    shown = Shown(page)
    shown.picture.press("ArrowLeft")
    shown.button("axial").click()
    shown.slider("layers").press("End")
    assert page.evaluate("[state.pixel, state.model, state.n_layers, saved]") == [
        [4, 5],
        "axial",
        3,
        3,
    ]
    it.pixel, it.model, it.n_layers = [4, 5], "axial", 3
    shown.is_now(it)
    page.evaluate("assign('pixel', [1, 2])")
    it.pixel = [1, 2]
    shown.is_now(it)
    page.evaluate("assign('pixel', [90, 2])")  # of another picture: not shown
    shown.is_now(it)
    page.evaluate("leave()")
    assert page.evaluate("listeners.length") == 0


# Every reader


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing(open_page, theme):
    page = open_page(studio().page_html(), theme=theme, color_scheme=theme)
    result = Axe().run(page)
    assert result.violations_count == 0, result.generate_report()
    assert [check["id"] for check in result.response["incomplete"]] == []


def test_a_narrow_screen_needs_no_scrolling_sideways(open_studio):
    shown = open_studio(studio(), viewport=PHONE)
    assert shown.page.evaluate("document.documentElement.scrollWidth") <= 360
    assert shown.picture.bounding_box()["width"] > 280
    for control in [*shown.box.get_by_role("button").all()]:
        assert control.bounding_box()["height"] >= 44  # a thumb


def test_all_controls_are_reached_by_tab(open_studio):
    shown = open_studio(studio())
    reached = []
    for _ in range(7):
        shown.page.keyboard.press("Tab")
        reached.append(
            shown.page.evaluate(
                "(document.activeElement.getAttribute('aria-label') ?? document.activeElement.textContent)"
            )
        )
    assert reached[0].startswith("Picture of 9 rows and 12 columns. Arrow keys choose a pixel")
    assert reached[1:] == ["1-D", "2-D", "axial", "layers", "row", "column"]


def test_without_javascript_the_still_and_its_description_remain(open_page):
    it = studio()
    page = open_page(it.page_html(), java_script_enabled=False, viewport=PHONE)
    assert page.get_by_role("img").get_attribute("alt") == it.description
    assert page.get_by_text("With JavaScript, any pixel can be chosen.").is_visible()
