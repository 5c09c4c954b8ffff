"""The Mask Studio without a browser: what it holds, what it sends, what it refuses."""

import gzip
import html
import io
import json
import random
from base64 import b64decode
from dataclasses import FrozenInstanceError
from html.parser import HTMLParser

import numpy as np
import pytest
import torch
from PIL import Image
from traitlets import TraitError

import tinyattn.patterns
from tinyattn import attention, sparse_attention
from tinyattn.patterns import (
    BlockLocal,
    Causal,
    Dilated,
    Full,
    Global,
    Painted,
    Pattern,
    Random,
    Strided,
    Window,
    bigbird,
    bp_transformer,
    etc,
    longformer,
    sparse_fixed,
    sparse_strided,
    star_transformer,
)
from tinyattn.show import MaskStudio
from tinyattn.show.bitmaps import pack, unpack
from tinyattn.show.palette import ATOMS, PRESETS, SIZES, taken_apart, written
from tinyattn.show.settings import Setting

from .studio_page import WRONG_SETTINGS

NAMES = {name: getattr(tinyattn.patterns, name) for name in tinyattn.patterns.__all__}
BY_KEY = {preset.key: preset for preset in PRESETS}


def evaluated(expression, n):
    return eval(expression, {"torch": torch, **NAMES}).mask(n)


def browser_sends(studio, **state):
    """What arrives when the browser changes traits of the widget."""
    data = {"method": "update", "state": state, "buffer_paths": []}
    studio._handle_msg({"content": {"data": data}, "buffers": []})


def random_setting(rng):
    """A setting from all atoms and presets, some cells painted."""
    n = rng.choice(SIZES)
    terms = {
        atom.key: [rng.choice(values) for values in atom.parameters.values()]
        for atom in rng.sample(ATOMS, rng.choice([0, 1, 1, 2, 2, 3]))
    }
    base = rng.choice([None, None, "bigbird", "sparse_fixed", "longformer"])
    cells = [torch.rand(n, n) < 0.02 for _ in range(2)] if rng.random() < 0.3 else []
    added, erased = (pack(mask) for mask in cells) if cells else ("", "")
    return Setting(n, terms, rng.random() < 0.3, base, added, erased)


# The pattern and its Python


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (Window(2) | Global(1), "Window(2) | Global(1)"),
        ((Global(1) | Window(2)) & Causal(), "(Window(2) | Global(1)) & Causal()"),
        (Dilated(2, 3), "Dilated(w=2, dilation=3)"),
        (Strided(4) & Causal(), "Strided(4) & Causal()"),
        (Causal(), "Causal()"),
        (Full(), "Full()"),
        (BlockLocal(4) | Random(16, 2, 1), "BlockLocal(4) | Random(16, r=2, seed=1)"),
        (Window(40), "Window(40)"),
        (star_transformer(), "Window(1) | Global(1)"),
        (longformer(w=3, g=2), "Window(3) | Global(2)"),
        (etc(n_global=2, w=1), "Window(1) | Global(2)"),
        (sparse_strided(4), "(Window(4) | Strided(4)) & Causal()"),
        (sparse_fixed(4, c=1), "sparse_fixed(stride=4, c=1)"),
        (bigbird(16, 1, 1, 0), "bigbird(16, block_size=1, r=1, seed=0)"),
        (BlockLocal(4, before=1), "BlockLocal(block_size=4, before=1)"),
        (Window(1) | Window(3), "Window(1) | Window(3)"),
        (Window(1) | (Window(3) & Causal()), "Window(1) | Window(3) & Causal()"),
        (Global((0, 7)) | Window(1), "Global((0, 7)) | Window(1)"),
        (Random(16, 2, 1, exclude=Window(1)), "Random(16, r=2, seed=1, exclude=Window(1))"),
    ],
)
def test_a_studio_shows_the_pattern_that_it_starts_from_and_writes_it(pattern, text):
    studio = MaskStudio(pattern, n=16)
    assert studio.expression == text
    assert torch.equal(studio.mask, pattern.mask(16))
    assert torch.equal(studio.pattern.mask(16), pattern.mask(16))
    assert torch.equal(evaluated(text, 16), pattern.mask(16))


def test_a_pattern_with_parts_that_have_no_public_name_is_written_cell_by_cell():
    pattern = sparse_fixed(4, c=2)
    studio = MaskStudio(pattern, n=16)
    assert torch.equal(evaluated(studio.expression, 16), pattern.mask(16))
    assert studio.pattern == pattern


def test_random_settings_are_written_as_python_with_the_same_mask():
    rng = random.Random(0)
    torch.manual_seed(0)
    for _ in range(100):
        setting = random_setting(rng)
        text = setting.expression(BY_KEY)
        assert torch.equal(evaluated(text, setting.n), setting.mask(BY_KEY)), text


def test_nothing_at_all_is_a_pattern_too():
    nothing = Setting(8)
    assert nothing.expression(BY_KEY) == "Global(0)"
    assert not nothing.mask(BY_KEY).any()
    assert not evaluated(Setting(8, causal=True).expression(BY_KEY), 8).any()


@pytest.mark.parametrize("preset", PRESETS, ids=lambda preset: preset.key)
@pytest.mark.parametrize("n", SIZES)
def test_every_preset_is_written_as_python_with_the_same_mask(preset, n):
    n = preset.n or n
    pattern, text = preset.at(n)
    assert torch.equal(evaluated(text, n), pattern.mask(n))
    studio = MaskStudio(preset.key, n=n)
    assert torch.equal(studio.mask, pattern.mask(n))
    assert torch.equal(evaluated(studio.expression, n), pattern.mask(n))


def test_the_tree_brings_the_number_of_its_nodes():
    studio = MaskStudio("bp_transformer")
    assert (studio.n, studio.expression) == (31, "bp_transformer(16, k=1)")
    assert torch.equal(studio.mask, bp_transformer(16, k=1).mask(31))
    assert studio.page_state()["kit"]["sizes"] == [8, 16, 24, 31, 32, 40, 48, 56, 64]
    assert MaskStudio("bp_transformer", n=7).expression == "bp_transformer(4, k=1)"
    for n in (1, 16, 30, 32):
        with pytest.raises(ValueError, match=f"has no meaning on n={n} tokens"):
            MaskStudio("bp_transformer", n=n)
    few = MaskStudio(n=16, atoms=["window"])  # too simple for trees
    assert few.page_state()["kit"]["sizes"] == [*SIZES]


def test_every_named_model_is_a_preset():
    named = {"star_transformer", "longformer", "etc", "bigbird", "sparse_strided", "sparse_fixed"}
    named |= {"image_1d", "image_2d"}
    assert named | {"axial", "matched_blocks"} <= set(BY_KEY)
    for key in named:
        assert BY_KEY[key].at(64)[1].startswith(f"{key}(")
    assert BY_KEY["axial"].at(64)[0].edges(64) == 64 * (8 + 8 - 1)
    assert BY_KEY["matched_blocks"].at(64)[0].edges(64) == 64 * 2 * 4


@pytest.mark.parametrize("pattern", [sparse_fixed(4, 1), Painted(torch.eye(4).bool())])
def test_what_cannot_be_written_shortly_is_said(pattern):
    assert written(pattern) is None
    assert written(Window(1) & pattern) is None


def test_a_union_inside_an_intersection_keeps_its_brackets():
    pattern = (Window(1) | Global(1)) & (Strided(2) | Causal())
    text = written(pattern)
    assert text == "(Window(1) | Global(1)) & (Strided(2) | Causal())"
    assert torch.equal(evaluated(text, 9), pattern.mask(9))


def test_a_union_with_a_causal_and_another_part_is_no_union_of_atoms():
    assert taken_apart((Window(1) & Causal()) | Global(1), 8) is None
    assert taken_apart(Window(1) & Causal() | Global(1) & Causal(), 8) == (
        {"window": [1], "global": [1]},
        True,
    )


# Both ways


def test_what_the_browser_paints_is_the_pattern_that_attention_takes():
    studio = MaskStudio(Window(1), n=8)
    added = torch.zeros(8, 8, dtype=torch.bool)
    added[2, 7] = True
    erased = torch.zeros(8, 8, dtype=torch.bool)
    erased[3, 3] = True
    browser_sends(studio, setting={**studio.setting, "added": pack(added), "erased": pack(erased)})
    expected = Window(1).mask(8)
    expected[2, 7], expected[3, 3] = True, False
    assert isinstance(studio.pattern, Painted)
    assert torch.equal(studio.mask, expected)
    assert torch.equal(evaluated(studio.expression, 8), expected)
    q, k, v = torch.randn(3, 1, 2, 8, 4, generator=torch.Generator().manual_seed(0))
    out = sparse_attention(q, k, v, studio.pattern)
    assert torch.allclose(out, attention(q, k, v, expected), atol=1e-6)


def test_a_mask_that_is_assigned_stands_on_top_of_the_rules():
    studio = MaskStudio(Window(1), n=8)
    mask = studio.mask
    mask[2, 7], mask[3, 3] = True, False
    studio.mask = mask
    assert torch.equal(studio.mask, mask)
    assert studio.setting["terms"] == {"window": [1]}
    assert unpack(studio.setting["added"], 8).nonzero().tolist() == [[2, 7]]
    assert unpack(studio.setting["erased"], 8).nonzero().tolist() == [[3, 3]]
    studio.mask = Window(1).mask(8)
    assert studio.pattern == Window(1)


def test_a_mask_of_another_size_starts_anew():
    studio = MaskStudio(n=16)
    mask = torch.rand(11, 11, generator=torch.Generator().manual_seed(0)) < 0.3
    studio.mask = mask
    assert studio.n == 11
    assert studio.kit["sizes"] == [8, 11, 16, 24, 31, 32, 40, 48, 56, 64]
    assert torch.equal(studio.mask, mask)


def test_a_pattern_that_is_assigned_is_shown_with_sliders_that_reach_it():
    studio = MaskStudio(n=16)
    studio.pattern = Window(23) | Global(1)
    assert studio.pattern == Window(23) | Global(1)
    (window,) = (atom for atom in studio.kit["atoms"] if atom["key"] == "window")
    assert 23 in window["choices"][0]
    studio.pattern = Painted(torch.eye(16).bool())
    assert torch.equal(studio.mask, torch.eye(16).bool())


def test_patterns_that_no_atoms_make_are_assigned_one_after_the_other():
    studio = MaskStudio(Window(1) | Window(3), n=16)
    for pattern in (Global((3, 9)), BlockLocal(4, before=1), sparse_fixed(4, c=2)):
        studio.pattern = pattern
        assert studio.pattern == pattern
        assert studio.kit["presets"][0]["key"] == "given"
        assert torch.equal(unpack(studio.kit["presets"][0]["bitmaps"]["16"], 16), pattern.mask(16))


def test_a_size_that_the_page_has_no_masks_of_is_answered():
    studio = MaskStudio(Window(3), n=64)
    assert studio.more == [128]
    browser_sends(studio, asked=128)
    assert studio.kit["sizes"][-1] == 128
    (window,) = (atom for atom in studio.kit["atoms"] if atom["key"] == "window")
    assert torch.equal(unpack(window["bitmaps"]["128"].split(" ")[3], 128), Window(3).mask(128))
    browser_sends(studio, setting={**studio.setting, "n": 128})
    assert studio.pattern == Window(3)
    assert studio.mask.shape == (128, 128)


GOOD = MaskStudio(Window(1), n=16).setting


@pytest.mark.parametrize(("wrong", "_", "reason"), WRONG_SETTINGS)
def test_a_setting_without_a_meaning_is_refused_and_the_last_good_one_stays(
    wrong, _, reason, refusals
):
    studio = MaskStudio(Window(1), n=16)
    with pytest.raises(TraitError, match=reason):
        studio.setting = {**GOOD, **wrong}
    assert studio.setting == GOOD
    assert studio.pattern == Window(1)


def test_a_setting_without_a_size_is_refused(refusals):
    studio = MaskStudio(Window(1), n=16)
    with pytest.raises(TraitError, match="a setting must have n"):
        studio.setting = {"terms": {"window": [2]}}
    studio.setting = {"n": 24, "terms": {"window": [2]}}  # the others have a meaning when left out
    assert studio.pattern == Window(2)


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"terms": {"global": [1]}}, "there is no atom 'global' here"),
        ({"base": "bigbird"}, "there is no preset 'bigbird' here"),
        ({"compare": "bigbird"}, "there is no preset 'bigbird' here"),
    ],
)
def test_a_studio_of_few_atoms_takes_no_others(wrong, reason, refusals):
    studio = MaskStudio(Window(1), n=16, atoms=["window"])
    with pytest.raises(TraitError, match=reason):
        studio.setting = {**studio.setting, **wrong}
    assert studio.pattern == Window(1)


def test_numbers_of_numpy_become_numbers_of_the_page():
    studio = MaskStudio(Window(1), n=16)
    n, w = np.array([24, 3])
    studio.setting = {**studio.setting, "n": n, "terms": {"window": (w,)}}
    assert json.loads(json.dumps(studio.setting))["terms"] == {"window": [3]}
    assert (studio.n, studio.expression) == (24, "Window(3)")


@pytest.mark.parametrize("n", [1, 2, 3])
def test_few_tokens_have_a_draw_on_the_page_or_its_mask(n):
    pattern = Random(n, 1, 0)
    studio = MaskStudio(pattern, n=n, compare=Random(n, 1, 1))
    (drawn,) = (atom for atom in studio.kit["atoms"] if atom["key"] == "random")
    assert ("random" in studio.setting["terms"]) == (str(n) in drawn["bitmaps"]) == (n == 3)
    assert torch.equal(studio.mask, pattern.mask(n))
    assert studio.pattern == pattern
    beside = next(it for it in studio.kit["presets"] if it["key"] == "other")
    assert ("terms" in beside["at"][str(n)]) == (n == 3)


# What the page gets


class Page(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.elements, self.text = [], ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text += data


def test_the_page_gets_the_masks_that_python_computes():
    kit = MaskStudio(n=16).page_state()["kit"]
    for offered, atom in zip(kit["atoms"], ATOMS, strict=True):
        for size, texts in offered["bitmaps"].items():
            n, texts = int(size), texts.split(" ")
            places = [[]]
            for choices in offered["choices"]:
                places = [[*place, value] for place in places for value in choices]
            assert len(places) == len(texts)
            for place, text in zip(places, texts, strict=True):
                assert torch.equal(unpack(text, n), atom.pattern(place, n).mask(n))
    for offered, preset in zip(kit["presets"], PRESETS, strict=True):
        sizes = {preset.n} if preset.n else {31, *SIZES}
        assert set(offered["at"]) == {str(n) for n in sizes}
        for size, text in offered["bitmaps"].items():
            assert torch.equal(unpack(text, int(size)), preset.at(int(size))[0].mask(int(size)))


def test_a_rule_on_positions_is_the_same_when_it_is_cropped():
    for atom in ATOMS:
        if not atom.drawn:
            for n in SIZES:
                pattern = atom.pattern(atom.start, n)
                assert torch.equal(pattern.mask(64)[:n, :n], pattern.mask(n))


def test_the_page_is_light():
    page = MaskStudio(compare=("longformer", "bigbird"), n=64).page_html().encode()
    assert len(page) < 60_000
    assert len(gzip.compress(page)) < 16_000


def test_the_still_says_what_the_widget_would_show():
    page = Page(MaskStudio(Window(2) | Global(1), n=16, compare="bigbird").page_html())
    assert [tag for tag, _ in page.elements] == ["div", "figure", "img", "figcaption", "code"]
    alt = page.elements[2][1]["alt"]
    assert "100 of 256 pairs allowed" in alt
    assert "Window(2) | Global(1), n = 16." in page.text
    assert "any token reaches any other within 2 layers" in page.text
    beside, mask = bigbird(16, 1, 1, 0).mask(16), (Window(2) | Global(1)).mask(16)
    added, lacking = int((beside & ~mask).sum()), int((mask & ~beside).sum())
    assert f"adds {added} pairs and lacks {lacking}." in page.text


def test_the_still_is_the_mask_with_a_line_between_cells():
    pattern = longformer(w=2, g=1)
    mask, page = pattern.mask(9), Page(MaskStudio(pattern, n=9).page_html())
    source = page.elements[2][1]["src"].split("base64,")[1]
    picture = Image.open(io.BytesIO(b64decode(source))).convert("RGB")
    cell = picture.size[0] // 9
    assert picture.size == (9 * cell, 9 * cell)
    for query in range(9):
        for key in range(9):
            colours = {
                (picture.getpixel((key * cell + x, query * cell + y)), max(x, y) == cell - 1)
                for x in range(cell)
                for y in range(cell)
            }
            inside = (11, 60, 93) if mask[query, key] else (238, 241, 244)
            assert colours == {(inside, False), ((255, 255, 255), True)}


@pytest.mark.parametrize(
    ("pattern", "said"),
    [(Strided(3), "disconnected, 3 components"), (Causal(), "some tokens never reach some others")],
)
def test_the_still_says_what_is_cut_off(pattern, said):
    assert said in MaskStudio(pattern, n=16).page_html()


def test_the_state_is_json_without_infinities_and_no_markup():
    studio = MaskStudio(n=8, tokens=["</div><img src=x>", *"abcdefg"])
    page = Page(studio.page_html())
    assert [tag for tag, _ in page.elements] == ["div", "figure", "img", "figcaption", "code"]
    state = json.loads(page.elements[0][1]["data-state"])
    assert state["kit"]["tokens"][0] == "</div><img src=x>"
    assert html.escape("</div><img") in studio.page_html()


def test_the_text_form_is_the_same_in_every_run_and_names_the_mask():
    studio = MaskStudio(Window(2) | Global(1), n=16, compare="bigbird")
    assert repr(studio) == (
        "MaskStudio(n=16, Window(2) | Global(1), edges=100, mask a8bed0c2, "
        "beside bigbird(16, block_size=1, r=1, seed=0))"
    )
    before = repr(studio)
    mask = studio.mask
    mask[15, 5] = True
    studio.mask = mask
    assert repr(studio) != before
    assert "Painted(n=16, edges=101), edges=101" in repr(studio)
    assert studio._repr_mimebundle_()[0]["text/plain"] == repr(studio)


def test_it_starts_with_sixteen_tokens():
    assert MaskStudio().n == MaskStudio(Window(1)).n == 16


def test_a_kernel_sends_what_the_page_holds():
    studio = MaskStudio(Window(2), n=16)
    sent = studio.get_state(studio.keys)
    assert {name: sent[name] for name in studio.page_state()} == studio.page_state()


def test_fewer_atoms_make_a_lighter_page_whose_menu_fits_them():
    studio = MaskStudio(Window(2), n=16, atoms=["window", "global"])
    assert [atom["key"] for atom in studio.kit["atoms"]] == ["window", "global"]
    keys = [preset["key"] for preset in studio.kit["presets"]]
    assert keys == ["star_transformer", "longformer", "etc"]
    assert len(studio.page_html()) < 12_000


def test_a_preset_may_need_fewer_atoms_than_there_are():
    studio = MaskStudio(Window(2), n=16, atoms=["window", "global", "dilated"])
    keys = [preset["key"] for preset in studio.kit["presets"]]
    assert keys == ["star_transformer", "longformer", "etc"]


@pytest.mark.parametrize("given", [{"scores": torch.eye(6)}, {"tokens": list("abcdef")}])
def test_scores_or_tokens_alone_fix_n(given):
    studio = MaskStudio(Causal(), **given)
    assert studio.kit["sizes"] == [6]
    assert studio.more == []


def test_scores_and_tokens_fix_n():
    scores = torch.randn(6, 6, generator=torch.Generator().manual_seed(0))
    studio = MaskStudio(Causal(), scores=scores, tokens=list("abcdef"))
    assert studio.kit["sizes"] == [6]
    assert studio.more == []
    assert torch.allclose(torch.tensor(studio.kit["scores"]), scores, atol=5e-4)
    with pytest.raises(ValueError, match="this studio has n=6 tokens, got 7"):
        studio.mask = torch.eye(7).bool()


@pytest.mark.parametrize(
    ("arguments", "error", "reason"),
    [
        ({"pattern": "unknown"}, ValueError, "a preset must be one of full, causal, star_transf"),
        ({"pattern": Window}, TypeError, "a pattern must be a rule such as"),
        ({"pattern": torch.eye(4).bool()}, TypeError, r"Painted\(mask\) makes one of a matrix"),
        ({"n": 0}, ValueError, "n must be in 1 … 128, got 0"),
        ({"n": 129}, ValueError, "n must be in 1 … 128, got 129"),
        ({"n": 8.0}, TypeError, "n must be a whole number, got 8.0"),
        ({"pattern": Random(8, 1, 0), "n": 16}, ValueError, "drawn for n=8 tokens, got 16"),
        ({"pattern": "bigbird", "n": 1}, ValueError, "'bigbird' has no meaning on n=1"),
        ({"atoms": ["star"]}, ValueError, "an atom must be one of full, window"),
        ({"compare": ("full", "etc", "causal")}, ValueError, "or a pair without"),
        ({"compare": ("full",)}, ValueError, "or a pair without"),
        ({"compare": ("full", "etc"), "pattern": Full()}, ValueError, "or a pair without"),
        ({"scores": torch.zeros(3, 4)}, ValueError, r"scores must be \(n, n\) and finite"),
        ({"scores": torch.full((3, 3), float("nan"))}, ValueError, "and finite"),
        (
            {"scores": torch.tensor(1.0)},
            ValueError,
            r"scores must be \(n, n\) and finite, got \(\)",
        ),
        ({"scores": np.zeros((3, 3))}, TypeError, r"real tensor \(n, n\), got ndarray"),
        ({"scores": [[0.0]]}, TypeError, r"real tensor \(n, n\), got list"),
        ({"scores": torch.eye(3) * 1j}, TypeError, r"real tensor \(n, n\), got torch.complex64"),
        ({"tokens": 5}, TypeError, "a label for each position, got int"),
        ({"tokens": {"a", "b"}}, TypeError, "a label for each position, got set"),
        ({"tokens": []}, ValueError, "n must be in 1 … 128, got 0"),
        ({"atoms": "window"}, TypeError, r"as in \['window', 'global'\], got 'window'"),
        ({"atoms": 5}, TypeError, "atoms must be a list of keys.*got 5"),
        ({"tokens": "abc", "n": 4}, ValueError, "must agree, got {'n': 4, 'tokens': 3}"),
        ({"pattern": Painted(torch.eye(3).bool()), "n": 4}, ValueError, "must agree"),
    ],
)
def test_wrong_arguments_are_refused(arguments, error, reason, refusals):
    with pytest.raises(error, match=reason):
        MaskStudio(**arguments)


@pytest.mark.parametrize(
    ("mask", "error"),
    [
        (torch.eye(4), TypeError),
        ([[True]], TypeError),
        (torch.ones(3, 4).bool(), ValueError),
        (torch.ones(4, 3).bool(), ValueError),
        (torch.ones(0, 0).bool(), ValueError),
        (torch.ones(129, 129).bool(), ValueError),
    ],
)
def test_what_is_no_mask_is_not_assigned(mask, error, refusals):
    studio = MaskStudio(Window(1), n=8)
    with pytest.raises(error, match=r"mask must be (a bool tensor|\(n, n\), n in)"):
        studio.mask = mask
    assert studio.pattern == Window(1)


def test_a_size_and_labels_of_numpy_are_json_too(refusals):
    assert MaskStudio(n=np.int64(8)).page_html() == MaskStudio(n=8).page_html()
    labels = np.array(["a", "b", "c"])
    assert MaskStudio(tokens=labels).kit["tokens"] == ["a", "b", "c"]


@pytest.mark.parametrize("n", [1, 2, 3, 5, 128])
def test_any_size_has_a_studio(n):
    studio = MaskStudio(Window(1), n=n)
    assert torch.equal(studio.mask, Window(1).mask(n))
    assert n in studio.page_state()["kit"]["sizes"]


def test_a_setting_does_not_change():
    setting = Setting(8, {"window": [2]})
    with pytest.raises(FrozenInstanceError):
        setting.n = 9


def test_sliders_ascend_and_their_blocks_fit_into_some_size_of_the_page():
    sliders = {(atom.key, name): at for atom in ATOMS for name, at in atom.parameters.items()}
    assert all(list(values) == sorted(set(values)) for values in sliders.values())
    assert sliders["window", "w"] == tuple(range(17))
    assert sliders["dilated", "w"] == tuple(range(1, 9))
    assert sliders["dilated", "dilation"] == tuple(range(2, 9))
    for size in sliders["block", "block_size"]:
        assert any(n % size == 0 for n in SIZES), size


class EverySecond(Pattern):
    """Somebody's own rule: keys at an even distance."""

    def allowed(self, i, j):
        return (i - j) % 2 == 0


def test_a_pattern_of_ones_own_is_written_anew_for_every_length():
    studio = MaskStudio(EverySecond(), n=8)
    for n in (8, 16):
        studio.setting = {**studio.setting, "n": n}
        assert torch.equal(torch.as_tensor(studio.mask), EverySecond().mask(n))
        assert torch.equal(
            eval(studio.expression, {**NAMES, "torch": torch}).mask(n), EverySecond().mask(n)
        )
