"""Bundle the widgets so that a published page runs them without a kernel.

Each file of src/tinyattn/show/static is an ES module with `export default { render }`, as
anywidget wants it. Browsers refuse module scripts on file:// pages, so the book gets one
classic script made from the same files, and host.js starts it. Their styles come along.
"""

import re
from pathlib import Path

MODULES = "src/tinyattn/show/static"
HOST = Path(__file__).with_name("host.js")


def bundle(modules: list[Path]) -> str:
    """One script that defines `widgets[name]()` for each module, then runs the host."""
    parts = ["(() => {", '"use strict";', "const widgets = {};"]
    for module in modules:
        parts.append(f'widgets["{module.stem}"] = () => {{\n{as_function_body(module)}\n}};')
    return "\n".join([*parts, HOST.read_text(encoding="utf-8"), "})();\n"])


def as_function_body(module: Path) -> str:
    code = module.read_text(encoding="utf-8")
    code, n_defaults = re.subn(r"^export default ", "return ", code, flags=re.MULTILINE)
    code = re.sub(r"^export (?=(const|let|function|class|async) )", "", code, flags=re.MULTILINE)
    if n_defaults != 1 or re.search(r"^(import|export)\b", code, flags=re.MULTILINE):
        raise ValueError(
            f"{module} must hold one `export default {{ render }};`, no import and no export list"
        )
    return code


def write_bundle(app, config) -> None:
    folder = Path(app.doctreedir).parent / ".tinybook_static"
    folder.mkdir(parents=True, exist_ok=True)
    modules = Path(app.srcdir) / MODULES
    script = bundle(sorted(modules.glob("*.js")))
    (folder / "tinyattn_widgets.js").write_text(script, encoding="utf-8")
    (folder / "tinyattn_widgets.css").write_bytes((modules / "widgets.css").read_bytes())
    config.html_static_path.append(str(folder))
    app.add_css_file("tinyattn_widgets.css")
    app.add_js_file("tinyattn_widgets.js", defer="defer")


def setup(app) -> None:
    app.connect("config-inited", write_bundle, priority=900)
