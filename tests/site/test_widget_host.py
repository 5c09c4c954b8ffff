"""The script that starts the widgets, tried with widgets that fail."""

import html
import json

import pytest

from tinybook.widgets import bundle

COUNTER = """
export const step = 2;
function render({ model, el }) {
  const draw = () => { el.textContent = `count ${model.get("count")}`; };
  model.on("change:count", draw);
  draw();
  el.onclick = () => { model.set("count", model.get("count") + step); model.save_changes(); };
}
export default { render };
"""
FAILS_AT_LOAD = "throw new Error('cannot load');\nexport default { render() {} };"
FAILS_AT_RENDER = """
export default { render({ el }) { el.textContent = "half"; throw new Error("cannot draw"); } };
"""


def widget(name: str, **state: int) -> str:
    state = html.escape(json.dumps(state))
    return f'<div data-tinyattn-widget="{name}" data-state="{state}">fallback of {name}</div>'


@pytest.fixture
def page(browser, tmp_path):
    modules = {"counter": COUNTER, "at_load": FAILS_AT_LOAD, "at_render": FAILS_AT_RENDER}
    for name, code in modules.items():
        (tmp_path / f"{name}.js").write_text(code, encoding="utf-8")
    names = ["at_load", "at_render", "unknown", "counter"]
    body = "".join(widget(name, count=3) for name in names)
    script = bundle(sorted(tmp_path.glob("*.js")))
    page = browser.new_page()
    page.set_content(f"<!doctype html><body>{body}<script>{script}</script>")
    yield page
    page.close()


def test_a_widget_draws_and_reacts(page):
    counter = page.locator("[data-tinyattn-widget=counter]")
    assert counter.text_content() == "count 3"
    counter.click()
    assert counter.text_content() == "count 5"


@pytest.mark.parametrize(
    ("name", "reason"),
    [("at_load", "cannot load"), ("at_render", "cannot draw"), ("unknown", "no such widget")],
)
def test_a_widget_that_fails_says_so_and_keeps_its_fallback(page, name, reason):
    widget = page.locator(f"[data-tinyattn-widget={name}]")
    assert reason in widget.get_by_role("alert").text_content()
    assert widget.text_content().endswith(f"fallback of {name}")
    assert "half" not in widget.text_content()
