"""Widgets that live twice: tied to Python in Jupyter, and by themselves on a page of the book."""

import html
import inspect
import json
from base64 import b64encode
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import product
from pathlib import Path

import anywidget
import matplotlib.pyplot as plt
import numpy as np
import traitlets
from torch import Tensor

from tinyattn.show.digests import digest
from tinyattn.show.figures import checked, png, size_on_page

STATIC = Path(__file__).parent / "static"
BUDGET = 175_000  # bytes of all frames together; a notebook may hold 400,000


class StaticWidget(anywidget.AnyWidget):
    """A widget that also works where there is no kernel.

    One ES module, static/NAME.js, serves both: anywidget loads it in Jupyter, and the book puts
    it on the page, where it starts from the state that stands in the html. A subclass names it
    (`class Explorer(StaticWidget, module="frames")`) and says what to put there.
    """

    def __init_subclass__(cls, *, module: str | None = None, **kwargs: object) -> None:
        if module is not None:  # traitlets makes subclasses of its own, which inherit it
            cls.module = module
            cls._esm = STATIC / f"{module}.js"
            cls._css = STATIC / "widgets.css"
        super().__init_subclass__(**kwargs)

    def page_state(self) -> dict[str, object]:
        """What the module needs to work alone, as JSON."""
        raise NotImplementedError

    def still(self) -> str:
        """Html that says the same without JavaScript: a picture with alt text, or words."""
        raise NotImplementedError

    def page_html(self) -> str:
        """The twin for the page: the still, and the state from which the module starts."""
        state = json.dumps(self.page_state(), sort_keys=True, ensure_ascii=False, allow_nan=False)
        return (
            f'<div data-tinyattn-widget="{self.module}" data-state="{html.escape(state)}">'
            f"{self.still()}</div>"
        )

    def _repr_mimebundle_(self, **kwargs: object) -> tuple[dict, dict]:
        live, metadata = super()._repr_mimebundle_(**kwargs)
        return {**live, "text/html": self.page_html(), "text/plain": repr(self)}, metadata


class Explorer(StaticWidget, module="frames"):
    """What `explore` returns: `index` says where the sliders stand, `frame` what they show."""

    names = traitlets.List(traitlets.Unicode()).tag(sync=True)
    labels = traitlets.List(traitlets.List(traitlets.Unicode())).tag(sync=True)
    index = traitlets.List(traitlets.Int()).tag(sync=True)
    frame = traitlets.Dict().tag(sync=True)

    def __init__(self, f: Callable, values: dict[str, list], *, trained: bool):
        self._f, self._values, self._trained = f, values, trained
        places = list(product(*(range(len(v)) for v in values.values())))
        self._frames, self._texts = [], []
        for place in places:
            frame, text = self._compute(place)
            self._frames.append(frame)
            self._texts.append(text)
        super().__init__(
            names=list(values),
            labels=[[str(value) for value in several] for several in values.values()],
            index=[0] * len(values),
            frame={**self._frames[0], "index": [0] * len(values)},
        )

    def _setting(self, place: Iterable[int]) -> dict[str, object]:
        chosen = zip(self._values.items(), place, strict=True)
        return {name: values[k] for (name, values), k in chosen}

    def _compute(self, place: Iterable[int]) -> tuple[dict[str, object], str]:
        """Call f at one setting: the frame for the browser, and the text for tests."""
        setting = self._setting(place)
        said = _say(setting)
        try:
            result = self._f(**setting)
        except Exception as error:
            error.add_note(f"explore called f with {said}")
            raise
        if isinstance(result, str):
            return {"text": result}, f"{said}: {'text' if self._trained else result}"
        if not (isinstance(result, tuple) and len(result) == 2):
            if isinstance(result, plt.Figure):
                plt.close(result)
            raise TypeError(
                "f must return (figure, alt text) or a string, "
                f"got {type(result).__name__} for {said}"
            )
        try:
            fig, alt = checked(*result)
        except (TypeError, ValueError) as error:
            error.add_note(f"explore called f with {said}")
            raise
        try:
            width, height = size_on_page(fig)
            source = "data:image/png;base64," + b64encode(png(fig, dpi=100)).decode()
            text = f"{said}: {alt}\n{digest(fig, trained=self._trained)}"
        finally:
            plt.close(fig)
        return {"src": source, "alt": alt, "width": width, "height": height}, text

    @traitlets.validate("index")
    def _check(self, proposal: traitlets.Bunch) -> list[int]:
        """A place that no slider has is refused; the last good one stays."""
        index, sizes = proposal["value"], [len(values) for values in self._values.values()]
        if len(index) != len(sizes) or not all(map(range.__contains__, map(range, sizes), index)):
            most = [size - 1 for size in sizes]
            raise traitlets.TraitError(f"index must lie between 0 and {most}, got {index}")
        return index

    @traitlets.observe("index")
    def _answer(self, change: traitlets.Bunch) -> None:
        """Python computes what the slider asks for: f may have changed since the cell ran."""
        if self.frame.get("index") == change["new"]:
            return  # the first frame comes with the widget
        try:
            frame, _ = self._compute(change["new"])
        except Exception as error:  # noqa: BLE001 - whatever f does, the slider lives on
            frame = {"error": f"{type(error).__name__}: {error}"}
        self.frame = {**frame, "index": change["new"]}

    def page_state(self) -> dict[str, object]:
        first = {key: value for key, value in self._frames[0].items() if key != "src"}
        return {
            "names": self.names,
            "labels": self.labels,
            "index": [0] * len(self.names),
            "frames": [first, *self._frames[1:]],  # the still holds the first picture
        }

    def still(self) -> str:
        first = {key: html.escape(str(value)) for key, value in self._frames[0].items()}
        if "text" in first:
            shown = f"<pre>{first['text']}</pre>"
        else:
            picture = '<img src="{src}" alt="{alt}" width="{width}" height="{height}">'
            shown = picture.format(**first)
        choices = "; ".join(
            f"{n} can be {', '.join(v)}" for n, v in zip(self.names, self.labels, strict=True)
        )
        caption = f"{_say(self._setting([0] * len(self.names)))}. With JavaScript, {choices}."
        return f"<figure>{shown}<figcaption>{html.escape(caption)}</figcaption></figure>"

    def __repr__(self) -> str:
        parameters = ", ".join(f"{name}={values}" for name, values in self._values.items())
        return "\n".join([f"explore({parameters})", *self._texts])


def explore(f: Callable, /, *, trained: bool = False, **parameters: Iterable) -> Explorer:
    """A slider over what `f` returns: `explore(f, w=[1, 2, 4])` calls `f(w=1)`, `f(w=2)`, ...

    In Jupyter the slider calls `f` anew. In the book it shows the same frames, computed when the
    cell ran. Make it the last line of a cell.

    Args:
        f: returns (figure, alt text), as for `show`, or a string, which is shown as it is.
        trained: keep values of trained models out of the digests (see `digest`).
        parameters: one or two parameters of `f` with the values to offer; the first is shown
            first.

    Raises:
        TypeError: if `f` does not take the parameters, or returns something else.
        ValueError: if there are no values, two alike, or the frames weigh too much.
    """
    if not callable(f):
        raise TypeError(f"explore needs a function that draws, got {f!r}")
    if not 1 <= len(parameters) <= 2:
        raise ValueError(
            f"explore needs one or two parameters with their values, as in explore(f, w=[1, 2, 4]), "
            f"got {len(parameters)}"
        )
    values = {name: _checked_values(name, given) for name, given in parameters.items()}
    try:
        with suppress(ValueError):  # some builtins have no signature
            inspect.signature(f).bind(**values)
    except TypeError as error:
        raise TypeError(f"f must take {', '.join(values)} by name: {error}") from None
    explorer = Explorer(f, values, trained=trained)
    weights = [len(str(frame.get("src", ""))) for frame in explorer._frames]
    if sum(weights) > BUDGET:
        raise ValueError(
            f"{len(weights)} frames weigh {sum(weights):,} bytes, the limit is {BUDGET:,}: "
            f"offer fewer values or draw smaller figures (the heaviest weighs {max(weights):,})"
        )
    return explorer


def _checked_values(name: str, given: object) -> list:
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise TypeError(f"{name} must be a list of values to offer, got {given!r}")
    if isinstance(given, np.ndarray | Tensor) and given.ndim != 1:
        raise ValueError(f"{name} must be a row of values to offer, got shape {tuple(given.shape)}")
    # Python's own numbers print without their type and are what `f` expects.
    values = [value.item() if isinstance(value, np.generic | Tensor) else value for value in given]
    if not values:
        raise ValueError(f"{name} has no values to offer")
    labels = [str(value) for value in values]
    for label in labels:
        if labels.count(label) > 1:
            raise ValueError(f"{name} offers {label} twice")
        if " at 0x" in label:
            raise ValueError(f"{name} offers {label}, whose text is another one in every run")
    return values


def _say(setting: dict[str, object]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in setting.items())
