"""The widgets in a JupyterLab that the test starts, with the kernel that runs its cells."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tinyattn.patterns import Causal, Window

from .lab import Notebook, open_notebook
from .studio_page import Studio

USE = """
q, k, v = torch.randn(3, 1, 2, studio.n, 4, generator=torch.Generator().manual_seed(0))
out = sparse_attention(q, k, v, studio.pattern)
assert torch.allclose(out, attention(q, k, v, studio.mask), atol=1e-6)
print(type(studio.pattern).__name__, studio.n, int(studio.mask.sum()), bool(studio.mask[2, 13]))
"""
CELLS = {
    "import": """
import torch
from ipywidgets import Label
from tinyattn import attention, sparse_attention
from tinyattn.patterns import Causal, Painted, Window
from tinyattn.show import MaskStudio
""",
    "studio": "studio = MaskStudio(Window(1), n=16)\nstudio",
    # shows at once what Python has
    "heard": """
heard = Label()
studio.observe(lambda _: setattr(heard, "value", f"{studio.n}, {studio.mask.sum()}"), "setting")
heard
""",
    "use what was painted": USE,
    "paint in Python": "mask = studio.mask\nmask[2, 12:14] = False\nmask[9, 2] = True\nstudio.mask = mask",
    "use what both painted": USE,
    "assign": "studio.pattern = Window(3) & Causal()",
    "use what was changed": USE,
}
PLACES = {name: place for place, name in enumerate(CELLS)}


@pytest.fixture(scope="module")
def notebook(browser, tmp_path_factory) -> Iterator[Notebook]:
    cells = [cell.strip() for cell in CELLS.values()]
    with open_notebook(browser, tmp_path_factory.mktemp("lab"), cells) as notebook:
        assert notebook.printed(PLACES["import"]) == ""
        yield notebook


def test_an_edit_on_either_side_reaches_the_other_and_attention(notebook):
    studio = Studio(notebook.page)
    pairs = studio.box.locator("[data-number=pairs]")
    notebook.run(PLACES["studio"])
    expect(pairs).to_have_text("46 of 256")
    heard = notebook.run(PLACES["heard"]).locator(".widget-label")

    # the browser paints: Python computes with it
    studio.drag((2, 9), (2, 13))
    assert studio.inked()[2, 9:14].tolist() == [1] * 5
    expect(heard).to_have_text("16, 51")
    assert notebook.printed(PLACES["use what was painted"]) == "Painted 16 51 True"

    # Python paints, one cell more and two fewer: the browser draws it
    assert notebook.printed(PLACES["paint in Python"]) == ""
    expect(pairs).to_have_text("50 of 256")
    assert studio.inked()[2, 9:14].tolist() == [1, 1, 1, 0, 0]
    assert studio.inked()[9, 2] == 1
    assert notebook.printed(PLACES["use what both painted"]) == "Painted 16 50 False"

    # Python assigns a rule: the browser writes it; the browser changes it, and Python has it
    assert notebook.printed(PLACES["assign"]) == ""
    expect(studio.box.locator("textarea")).to_have_value("Window(3) & Causal()")
    expect(pairs).to_have_text(f"{(Window(3) & Causal()).edges(16)} of 256")
    studio.check("causal").click()
    expect(heard).to_have_text(f"16, {Window(3).edges(16)}")

    # a size that the browser has no masks of
    studio.slider("n, tokens").press("End")
    expect(heard).to_have_text(f"128, {Window(3).edges(128)}")
    assert notebook.printed(PLACES["use what was changed"]).split()[:2] == ["Window", "128"]
