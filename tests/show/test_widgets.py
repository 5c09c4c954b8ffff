"""Widgets without a browser: what they compute, what they send, what they refuse."""

import json
import subprocess
import sys
from html.parser import HTMLParser

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from traitlets import TraitError

from tinyattn.patterns import Causal
from tinyattn.show import StaticWidget, describe_mask, draw_mask, explore

HOSTILE = "</div></script><img src=x onerror=alert(1)>\"'&"


def drawn(n):
    return draw_mask(Causal(), n), describe_mask(Causal(), n)


def bars(height, width=0.5):
    fig, ax = plt.subplots(figsize=(2, 1))
    ax.bar([0, 1], [height, 2 * height], width)
    return fig, f"Two bars, {height} and {2 * height} high, each {width} wide."


class Page(HTMLParser):
    """The elements of a piece of html, as (tag, attributes), and its text."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.text = [], ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text += data

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]

    @property
    def state(self):
        (div,) = self.all("div")
        return json.loads(div["data-state"])


def page(widget):
    return Page(widget.page_html())


def browser_sends(widget, **state):
    """What arrives when the browser changes traits of the widget."""
    data = {"method": "update", "state": state, "buffer_paths": []}
    widget._handle_msg({"content": {"data": data}, "buffers": []})


# What the page gets


def test_every_value_becomes_a_frame():
    state = page(explore(drawn, n=[2, 3, 5])).state
    assert (state["names"], state["labels"], state["index"]) == (["n"], [["2", "3", "5"]], [0])
    assert [frame["alt"] for frame in state["frames"]] == [
        describe_mask(Causal(), n) for n in (2, 3, 5)
    ]
    assert len({frame["src"] for frame in state["frames"][1:]}) == 2


def test_two_parameters_give_every_pair_the_second_fastest():
    state = page(explore(bars, height=[1, 2], width=[0.2, 0.4, 0.6])).state
    assert state["labels"] == [["1", "2"], ["0.2", "0.4", "0.6"]]
    assert [frame["alt"][-9:] for frame in state["frames"]] == [
        "0.2 wide.",
        "0.4 wide.",
        "0.6 wide.",
    ] * 2
    assert [frame["alt"][10:11] for frame in state["frames"]] == ["1"] * 3 + ["2"] * 3


def test_the_still_shows_the_first_frame_whose_bytes_stand_there_only():
    html = page(explore(drawn, n=[4, 6]))
    (image,) = html.all("img")
    assert image["src"].startswith("data:image/png;base64,")
    assert image["alt"] == describe_mask(Causal(), 4)
    assert (int(image["width"]), int(image["height"])) == tuple(
        html.state["frames"][0][key] for key in ("width", "height")
    )
    assert "src" not in html.state["frames"][0]
    assert html.text == "n = 4. With JavaScript, n can be 4, 6."


def test_text_frames_are_shown_as_they_are():
    html = page(explore(lambda n: f"{n} <b>keys</b>", n=[1, 2]))
    assert [frame["text"] for frame in html.state["frames"]] == ["1 <b>keys</b>", "2 <b>keys</b>"]
    assert "1 <b>keys</b>" in html.text
    assert not html.all("b")


def test_words_cannot_become_markup():
    def f(word):
        fig, ax = plt.subplots()
        ax.set_title("fixed")
        return fig, f"A figure about {word}, and nothing else."

    html = page(explore(f, word=[HOSTILE, "plain"]))
    assert [tag for tag, _ in html.elements] == ["div", "figure", "img", "figcaption"]
    assert html.state["labels"] == [[HOSTILE, "plain"]]
    assert html.all("img")[0]["alt"] == f"A figure about {HOSTILE}, and nothing else."
    assert HOSTILE in html.text


def test_frames_are_light():
    frames = page(explore(drawn, n=[8, 16, 24, 32])).state["frames"]
    assert max(len(frame.get("src", "")) for frame in frames) < 12_000


def test_numbers_of_arrays_and_tensors_are_offered_as_plain_numbers():
    seen = []
    offered = explore(lambda a, b: seen.append((a, b)) or "text", a=np.array([2]), b=torch.ones(1))
    assert page(offered).state["labels"] == [["2"], ["1.0"]]
    assert [type(value) for value in seen[0]] == [int, float]


# What tests compare


def test_the_text_form_says_every_frame():
    assert repr(explore(bars, height=[1, 3])) == (
        "explore(height=[1, 3])\n"
        "height = 1: Two bars, 1 and 2 high, each 0.5 wide.\n"
        "axes 0; bars 2 [1, 2] mean 1.5 tilt 0.5\n"
        "height = 3: Two bars, 3 and 6 high, each 0.5 wide.\n"
        "axes 0; bars 2 [3, 6] mean 4.5 tilt 1.5"
    )
    assert (
        repr(explore(str, object=[1, 2])) == "explore(object=[1, 2])\nobject = 1: 1\nobject = 2: 2"
    )


def test_values_of_trained_models_stay_out_of_the_text():
    assert repr(explore(bars, height=[1], trained=True)).endswith("axes 0; bars 2")
    assert repr(explore(str, trained=True, object=[1])).endswith("object = 1: text")


def test_jupyter_gets_the_live_widget_and_its_twin():
    widget = explore(str, object=[1, 2])
    data, _ = widget._repr_mimebundle_()
    assert data["text/plain"] == repr(widget)
    assert data["text/html"] == widget.page_html()
    assert data["application/vnd.jupyter.widget-view+json"]["model_id"] == widget.model_id


def test_another_process_writes_the_same_bytes():
    code = (
        "import sys; from tinyattn.patterns import Causal; "
        "from tinyattn.show import describe_mask, draw_mask, explore; "
        "it = explore(lambda n: (draw_mask(Causal(), n), describe_mask(Causal(), n)), n=[4, 6]); "
        "sys.stdout.buffer.write((it.page_html() + repr(it)).encode())"
    )
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    widget = explore(drawn, n=[4, 6])
    assert other.stdout.decode() == widget.page_html() + repr(widget)


# Live


def test_the_first_frame_is_there_at_once():
    widget = explore(drawn, n=[4, 6])
    assert widget.index == widget.frame["index"] == [0]
    assert widget.frame["alt"] == describe_mask(Causal(), 4)
    assert "frames" not in widget.get_state()  # each crosses when it is asked for


def test_a_front_end_is_sent_the_sliders_their_place_and_the_frame():
    widget = explore(bars, height=[1, 2], width=[0.2, 0.4])
    sent = widget.get_state()
    assert (sent["names"], sent["labels"]) == (["height", "width"], [["1", "2"], ["0.2", "0.4"]])
    assert (sent["index"], sent["frame"]) == ([0, 0], widget.frame)


def test_each_frame_is_computed_once_and_anew_when_the_slider_comes_back():
    called = []
    widget = explore(lambda n: called.append(n) or f"{n} keys", n=[1, 2, 3])
    assert called == [1, 2, 3]
    widget.index = [2]
    widget.index = [0]
    assert called == [1, 2, 3, 3, 1]


def test_python_answers_the_slider(monkeypatch):
    widget = explore(drawn, n=[4, 6])
    sent = []
    monkeypatch.setattr(widget, "_send", lambda message, buffers=None: sent.append(message))
    browser_sends(widget, index=[1])
    assert [m["state"] for m in sent if m["method"] == "update"] == [{"frame": widget.frame}]
    assert widget.frame["index"] == [1]
    assert widget.frame["alt"] == describe_mask(Causal(), 6)
    assert plt.get_fignums() == []


def test_python_may_move_the_slider_too():
    widget = explore(bars, height=[1, 2], width=[0.2, 0.4])
    widget.index = [1, 0]
    assert widget.frame["alt"] == "Two bars, 2 and 4 high, each 0.2 wide."


def test_the_slider_shows_what_f_returns_now():
    facts = {"keys": 3}
    widget = explore(lambda n: f"{n * facts['keys']} keys", n=[1, 2])
    facts["keys"] = 5
    browser_sends(widget, index=[1])
    assert widget.frame == {"text": "10 keys", "index": [1]}
    assert page(widget).state["frames"][1] == {"text": "6 keys"}  # as computed with the cell


def test_an_error_of_f_is_shown_and_the_slider_lives_on():
    broken = set()

    def f(n):
        if n in broken:
            raise RuntimeError("n is broken")
        return str(n)

    widget = explore(f, n=[1, 2, 3])
    broken.add(2)
    browser_sends(widget, index=[1])
    assert widget.frame == {"error": "RuntimeError: n is broken", "index": [1]}
    browser_sends(widget, index=[2])
    assert widget.frame == {"text": "3", "index": [2]}


@pytest.mark.parametrize("index", [[2], [-1], [], [0, 0], ["1"], [None], "1", None, [0.5]])
def test_a_place_that_does_not_exist_leaves_the_last_good_one(index):
    widget = explore(str, object=[1, 2])
    widget.index = [1]
    browser_sends(widget, index=index)  # Jupyter logs the refusal
    assert widget.index == widget.frame["index"] == [1]
    browser_sends(widget, index=[0])
    assert widget.frame == {"text": "1", "index": [0]}


def test_a_wrong_place_is_named():
    with pytest.raises(TraitError, match=r"index must lie between 0 and \[1\], got \[7\]"):
        explore(str, object=[1, 2]).index = [7]


# Bad input


@pytest.mark.parametrize("parameters", [{}, {"a": [1], "b": [1], "c": [1]}])
def test_one_or_two_parameters_are_needed(parameters):
    with pytest.raises(ValueError, match="one or two parameters with their values, as in"):
        explore(lambda **_: "text", **parameters)


@pytest.mark.parametrize(
    ("values", "error", "message"),
    [
        ([], ValueError, "n has no values to offer"),
        ([1, 2, 1], ValueError, "n offers 1 twice"),
        ([1, "1"], ValueError, "n offers 1 twice"),
        ("abc", TypeError, "n must be a list of values to offer, got 'abc'"),
        (3, TypeError, "n must be a list of values to offer, got 3"),
        ([object()], ValueError, "whose text is another one in every run"),
        (np.zeros((2, 2)), ValueError, r"n must be a row of values to offer, got shape \(2, 2\)"),
        (torch.zeros(2, 2), ValueError, r"n must be a row of values to offer, got shape \(2, 2\)"),
        (torch.tensor(1), ValueError, r"n must be a row of values to offer, got shape \(\)"),
    ],
)
def test_values_that_cannot_be_offered_are_refused(values, error, message, refusals):
    with pytest.raises(error, match=message):
        explore(lambda n: "text", n=values)


def test_a_builtin_without_signature_is_tried():
    with pytest.raises(TypeError) as caught:
        explore(str, w=[1])
    assert caught.value.__notes__ == ["explore called f with w = 1"]


def test_what_is_no_function_is_refused(refusals):
    with pytest.raises(TypeError, match="a function that draws, got 3"):
        explore(3, n=[1])


def test_a_function_that_does_not_take_the_parameter_is_refused():
    with pytest.raises(TypeError, match="f must take w by name: missing a required argument: 'n'"):
        explore(lambda n: "text", w=[1])
    with pytest.raises(TypeError, match="f must take n by name: missing a required argument: 'm'"):
        explore(lambda n, m: "text", n=[1])


@pytest.mark.parametrize(
    ("result", "came"), [(None, "NoneType"), (3, "int"), ((1, 2, 3), "tuple"), (plt.Figure, "type")]
)
def test_another_result_is_refused_with_the_value_that_gave_it(result, came):
    with pytest.raises(TypeError, match=rf"\(figure, alt text\) or a string, got {came} for n = 2"):
        explore(lambda n: "text" if n == 1 else result, n=[1, 2])


def test_a_figure_without_alt_text_is_refused_and_closed():
    with pytest.raises(TypeError, match="got Figure for n = 4"):
        explore(lambda n: draw_mask(Causal(), n), n=[4])
    assert plt.get_fignums() == []


@pytest.mark.parametrize(("alt", "error"), [("short", ValueError), (None, TypeError)])
def test_a_bad_alt_text_is_refused_with_the_value_that_gave_it(alt, error, refusals):
    with pytest.raises(error, match="alt must") as caught:
        explore(lambda n: (draw_mask(Causal(), n), alt), n=[4])
    assert caught.value.__notes__ == ["explore called f with n = 4"]
    assert plt.get_fignums() == []


def test_an_error_of_f_says_which_value_it_had():
    with pytest.raises(ZeroDivisionError) as caught:
        explore(lambda n: str(1 / n), n=[1, 0])
    assert caught.value.__notes__ == ["explore called f with n = 0"]


def test_the_budget_may_be_spent_to_the_last_byte(monkeypatch):
    weight = sum(len(frame["src"]) for frame in explore(drawn, n=[4, 6])._frames)
    monkeypatch.setattr("tinyattn.show.widgets.BUDGET", weight)
    explore(drawn, n=[4, 6])
    monkeypatch.setattr("tinyattn.show.widgets.BUDGET", weight - 1)
    with pytest.raises(
        ValueError, match=f"2 frames weigh {weight:,} bytes, the limit is {weight - 1:,}: "
    ):
        explore(drawn, n=[4, 6])


# Another widget on the same host


def test_a_widget_says_what_its_page_needs():
    class Silent(StaticWidget, module="frames"):
        """Answers none of the host's questions."""

    with pytest.raises(NotImplementedError):
        Silent().page_html()
    assert "export default" in Silent()._esm
    assert ".tinyattn-widget-error" in Silent()._css


def test_the_state_of_a_page_holds_letters_as_they_are_and_no_nan():
    class Said(StaticWidget, module="frames"):
        """Says one thing."""

        def __init__(self, said):
            self.said = said
            super().__init__()

        def page_state(self):
            return {"said": self.said}

        def still(self):
            return ""

    assert "&quot;né à Orléans&quot;" in Said("né à Orléans").page_html()
    with pytest.raises(ValueError, match="not JSON compliant"):
        Said(float("nan")).page_html()
