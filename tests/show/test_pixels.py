"""What a pixel knows, as Python says it: checks, words, and the rules that are handed to the page."""

import io
import json
import re
from base64 import b64decode

import numpy as np
import pytest
import torch
import traitlets
from PIL import Image

from tinyattn.analysis import first_seen, path_lengths
from tinyattn.patterns import Causal, Painted, Window, axial_columns, axial_rows, image_1d, image_2d
from tinyattn.show import PixelStudio

HEIGHT, WIDTH = 7, 5
ROWS, COLUMNS = axial_rows(WIDTH), axial_columns(WIDTH)
STACKS = {
    "1-D": [image_1d(10, 3)] * 3,
    "2-D": [image_2d(HEIGHT, WIDTH, (3, 2), (2, 1))] * 3,
    "axial": [ROWS & Causal(), COLUMNS & Causal(), ROWS & Causal()],
}


def light(height=HEIGHT, width=WIDTH):
    return torch.linspace(0, 255, height * width).view(height, width)


def studio(**options):
    return PixelStudio(light(), STACKS, **options)


def chains(rules, at, n):
    """Positions with a chain of at most m reads to the given one, for m = 0, 1, …, by hand."""
    known = [{at}]
    for rule in reversed(rules):
        mask = rule.mask(n)
        more = {j for i in known[-1] for j in range(n) if mask[i, j]}
        known.append(known[-1] | more)
    return known


@pytest.mark.parametrize("model", STACKS)
def test_a_pixel_knows_what_chains_of_reads_lead_to(model):
    n = HEIGHT * WIDTH
    for at in range(n):
        seen = first_seen(STACKS[model], at, n)
        for m, known in enumerate(chains(STACKS[model], at, n)[1:], start=1):
            assert set(((seen > 0) & (seen <= m)).nonzero()[:, 0].tolist()) == known


def test_layers_are_counted_from_the_last():
    seen = first_seen([COLUMNS & Causal(), ROWS & Causal()], 12, HEIGHT * WIDTH).view(HEIGHT, WIDTH)
    assert (seen[2, :3] == 1).all()  # its row so far, in the last layer
    assert (seen[:2, :3] == 2).all()  # and the columns of that, in the one before
    assert int((seen > 0).sum()) == 9


def test_with_one_rule_it_is_the_path_length():
    rule = Window(2)
    lengths = path_lengths(rule, 12)
    for at in range(12):
        seen = first_seen([rule] * 6, at, 12)
        assert torch.equal(seen, lengths[at].clamp(min=1).long())


def test_a_position_is_carried_by_the_residual_connection():
    before = Painted(torch.ones(6, 6).bool().tril(-1) & torch.ones(6, 6).bool().triu(-1))
    assert first_seen([before] * 3, 4, 6).tolist() == [0, 3, 2, 1, 1, 0]
    assert first_seen([before] * 3, 0, 6).tolist() == [1, 0, 0, 0, 0, 0]  # it reads nobody


def test_a_position_outside_is_refused():
    with pytest.raises(ValueError, match=r"position must be in 0 … 3, got 4"):
        first_seen([Window(1)], 4, 4)


def test_what_is_shown_is_counted_and_said():
    it = studio(pixel=(2, 3))
    assert it.model == "1-D"
    assert it.description == (
        "Pixel at row 2, column 3. Through 1 layer of 1-D attention it knows 7 of 35 pixels, in "
        "2 rows (1, 2) and 5 columns (0 to 4)."
    )
    it.model, it.n_layers = "axial", 2
    known = it.seen() > 0
    assert torch.equal(known, torch.arange(HEIGHT)[:, None].le(2) & torch.arange(WIDTH).le(3))
    assert it.description == (
        "Pixel at row 2, column 3. Through 2 layers of axial attention it knows 12 of 35 pixels, in "
        "3 rows (0 to 2) and 4 columns (0 to 3)."
    )
    assert int((it.seen("1-D") > 0).sum()) == 14


def test_it_starts_in_the_middle_and_says_what_it_shows():
    it = studio()
    assert it.pixel == [3, 2]
    counts = [
        int(((it.seen(name) > 0) & (it.seen(name) <= m)).sum())
        for name in STACKS
        for m in (1, 2, 3)
    ]
    assert repr(it) == (
        f"PixelStudio(7 x 5, pixel (3, 2), 1-D: {counts[0]}, {counts[1]}, {counts[2]}; "
        f"2-D: {counts[3]}, {counts[4]}, {counts[5]}; axial: {counts[6]}, {counts[7]}, {counts[8]} "
        "pixels known)"
    )


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("pixel", [7, 0], r"a row below 7 and a column below 5, got \[7, 0\]"),
        ("pixel", [0, -1], "a row below 7"),
        ("pixel", [1], "a row below 7"),
        ("model", "2d", "model must be one of 1-D, 2-D, axial, got '2d'"),
        ("n_layers", 0, "n_layers must be in 1 … 3, got 0"),
        ("n_layers", 4, "n_layers must be in 1 … 3, got 4"),
    ],
)
def test_what_cannot_be_shown_is_refused_and_the_last_good_one_stays(name, value, reason):
    it = studio()
    before = it.page_state()
    with pytest.raises(traitlets.TraitError, match=reason):
        setattr(it, name, value)
    assert it.page_state() == before


@pytest.mark.parametrize(
    ("picture", "stacks", "reason"),
    [
        (torch.zeros(0, 4), STACKS, r"picture must be a tensor \(height, width\), got \(0, 4\)"),
        (torch.zeros(101, 100), STACKS, "10,000 pixels or fewer, got 10,100"),
        (torch.full((7, 5), 256.0), STACKS, "light from 0 to 255, got 256 to 256"),
        (torch.full((7, 5), torch.nan), STACKS, "light from 0 to 255, got nan"),
        (light(), {}, "equally many layers, 1 to 3, got none"),
        (light(), {"a": []}, "equally many layers, 1 to 3, got a: 0"),
        (light(), {"a": [ROWS] * 4}, "got a: 4"),
        (light(), {"a": [ROWS], "b": [ROWS] * 2}, "got a: 1, b: 2"),
        (light(), {"a": [Window(1)]}, r"rules must be those of image_1d.*got Window\(w=1\)"),
        (light(), {"a": [image_2d(7, 5, 2, 1) & Causal()]}, "has a causal rule of its own"),
        (light(8), {"a": [image_2d(7, 5, 2, 1)]}, "8 rows and 5 col.*one for 7 rows and 5 col"),
        (light(), {"a": [image_2d(5, 7, 2, 1)]}, "7 rows and 5 col.*one for 5 rows and 7 col"),
        (light(), {"a": [image_2d(8, 5, 2, 1)]}, "7 rows and 5 col.*one for 8 rows and 5 col"),
        (light() * 1j, STACKS, "must hold real numbers, got torch.complex64"),
        (light().numpy(), STACKS, r"a tensor \(height, width\), got ndarray"),
    ],
)
def test_what_is_no_picture_or_no_stack_is_refused(picture, stacks, reason, refusals):
    with pytest.raises(ValueError, match=reason):
        PixelStudio(picture, stacks)


@pytest.mark.parametrize(
    ("stacks", "reason"),
    [
        ({"a": ROWS}, "the rules of a must be a list with one for each layer, got BlockLocal"),
        ({"a": "axial"}, "the rules of a must be a list with one for each layer, got 'axial'"),
        ([ROWS], r'as in {"axial": \[axial_rows\(4\)\]}, got list'),
        (None, "a list of rules for each name.*got NoneType"),
        ({"a": ["axial"]}, "a pattern must be a rule such as"),
    ],
)
def test_stacks_that_are_no_lists_of_rules_are_refused(stacks, reason, refusals):
    with pytest.raises(TypeError, match=reason):
        PixelStudio(light(), stacks)


@pytest.mark.parametrize("pixel", [5, (), (1,), (7, 0), (0, -1), (0.5, 0), "ab", torch.ones(2)])
def test_a_studio_does_not_start_from_what_is_no_pixel(pixel, refusals):
    with pytest.raises(ValueError, match="a row below 7 and a column below 5, got"):
        studio(pixel=pixel)


def test_numbers_of_numpy_are_a_pixel_too(refusals):
    row, column = np.array([2, 3])
    assert studio(pixel=(row, column)).page_state()["pixel"] == [2, 3]


def test_a_picture_of_bools_is_black_and_white():
    it = PixelStudio(light() > 100, STACKS)
    grey = b64decode(it.page_state()["picture"]["grey"])
    assert list(grey) == [255 if bright else 0 for bright in (light() > 100).flatten().tolist()]


@pytest.mark.parametrize("rule", [image_1d(10, 3), ROWS, COLUMNS])
def test_causal_may_stand_on_either_side_and_twice(rule):
    for causal in (rule & Causal(), Causal() & rule, rule & Causal() & Causal()):
        it = PixelStudio(light(), {"a": [causal]}, pixel=(3, 2))
        [[described]] = [model["rules"] for model in it.page_state()["models"]]
        assert described["causal"]
        assert int((it.seen() > 0).sum()) == int(causal.mask(HEIGHT * WIDTH)[3 * WIDTH + 2].sum())


def test_a_rule_that_is_refused_is_shown_as_it_was_given(refusals):
    with pytest.raises(ValueError, match=r"got \(ImageBlocks\(.*& Causal\(\)\)$"):
        PixelStudio(light(), {"a": [image_2d(7, 5, 2, 1) & Causal()]})


def test_the_page_gets_light_as_bytes_and_rules_as_numbers():
    state = json.loads(json.dumps(studio().page_state()))
    assert state["picture"]["height"], state["picture"]["width"] == (7, 5)
    assert [it["name"] for it in state["models"]] == ["1-D", "2-D", "axial"]
    one, two, axial = (it["rules"] for it in state["models"])
    assert one == [{"kind": "block", "size": 10, "memory": 3, "causal": True}] * 3
    assert two[0] == {"kind": "tile", "block": [3, 2], "flange": [2, 1], "causal": True}
    assert axial[:2] == [
        {"kind": "block", "size": 5, "memory": 0, "causal": True},
        {"kind": "stride", "size": 5, "causal": True},
    ]


def test_the_still_says_what_the_widget_would():
    it = studio(pixel=(0, 4))
    html = it.page_html()
    assert (
        html.count(it.description) == 2
    )  # for those who see the picture, and for those who do not
    assert 'width="30" height="42"' in html
    assert html == studio(pixel=(0, 4)).page_html()


def test_the_still_tints_what_each_layer_sees_first_and_bleaches_the_rest():
    it = studio(pixel=(3, 2))
    it.n_layers = 2
    [source] = re.findall('base64,([^"]*)', it.still())
    picture = Image.open(io.BytesIO(b64decode(source))).convert("RGB")
    assert picture.size == (WIDTH, HEIGHT)
    first = it.seen()
    assert set(first.unique().tolist()) >= {0, 1, 2}
    tints = {0: ((233, 238, 243), 0.75), 1: ((176, 32, 32), 0.55), 2: ((217, 130, 0), 0.55)}
    for row in range(HEIGHT):
        for column in range(WIDTH):
            layer = int(first[row, column])
            tint, share = tints[layer if layer <= 2 else 0]
            grey = float(light().round()[row, column])
            for got, tone in zip(picture.getpixel((column, row)), tint, strict=True):
                assert abs(got - ((1 - share) * grey + share * tone)) <= 2
