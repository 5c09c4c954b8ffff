"""Local MathJax and light icons, put in place when the pages have been written.

The theme ships every Font Awesome icon twice, as a script (1.5 MB) and as web fonts. The fonts
and their style sheet are enough: the script becomes empty and the fonts keep only used icons.
"""

import importlib.util
import re
import shutil
from pathlib import Path

from fontTools import subset
from fontTools.ttLib import TTFont

MATHJAX_PARTS = [
    "startup.js",
    "core.js",
    "input/tex.js",
    "input/tex/extensions",
    "output/chtml.js",
    "output/chtml/fonts/tex.js",
    "output/chtml/fonts/woff-v2",
    "a11y/assistive-mml.js",
]


MATHJAX_NOTICE = """MathJax 3, by The MathJax Consortium, under the Apache License, Version 2.0:
https://www.apache.org/licenses/LICENSE-2.0
"""


def finish(app, exception) -> None:
    if exception is None and app.builder.format == "html":
        static = Path(app.outdir) / "_static"
        copy_mathjax(static / "mathjax")
        drop_source_maps(static)
        (static / "scripts" / "fontawesome.js").write_text("/* the web fonts draw the icons */\n")
        cut_icon_fonts(Path(app.outdir))


def copy_mathjax(target: Path) -> None:
    package = importlib.util.find_spec("sphinx-mathjax-offline")
    source = Path(package.origin).parent / "static" / "mathjax"
    for part in MATHJAX_PARTS:
        copy = shutil.copytree if (source / part).is_dir() else shutil.copyfile
        (target / part).parent.mkdir(parents=True, exist_ok=True)
        if not (target / part).exists():
            copy(source / part, target / part)
    (target / "NOTICE").write_text(MATHJAX_NOTICE, encoding="utf-8")


def drop_source_maps(static: Path) -> None:
    for source_map in static.rglob("*.map"):
        source_map.unlink()
    for script in (static / "scripts").glob("*.js"):
        text = script.read_text(encoding="utf-8")
        script.write_text(re.sub(r"\n//# sourceMappingURL=\S+\s*$", "\n", text), encoding="utf-8")


def cut_icon_fonts(site: Path) -> None:
    codes = used_icons(site)
    for font_file in (site / "_static" / "vendor" / "fontawesome").rglob("*.woff2"):
        font = TTFont(font_file)
        options = subset.Options(ignore_missing_unicodes=True, hinting=False, notdef_outline=True)
        cutter = subset.Subsetter(options)
        cutter.populate(unicodes=codes)
        cutter.subset(font)
        font.flavor = "woff2"
        font.save(font_file)
        font_file.with_suffix(".ttf").unlink(missing_ok=True)


def used_icons(site: Path) -> set[int]:
    """Code points of the icons that pages, scripts or style sheets name or hold."""
    styles = read_all(site / "_static", "*.css")
    pages = read_all(site, "*.html") + read_all(site / "_static" / "scripts", "*.js")
    pages += read_all(site / "_static", "*.js", recursive=False)
    named = set(re.findall(r"\bfa-[a-z0-9-]+", pages))
    codes = {ord(character) for character in styles + pages if 0xE000 <= ord(character) <= 0xF8FF}
    rule = re.compile(r'([^{}]+)\{[^{}]*(?:content|--fa):\s*"\\([0-9a-f]{2,4})"')
    for selector, code in rule.findall(styles):
        icons = set(re.findall(r"\.(fa-[a-z0-9-]+)", selector))
        if not icons or icons & named:  # a rule of the theme itself, or an icon that is used
            codes.add(int(code, 16))
    return codes


def read_all(folder: Path, pattern: str, recursive: bool = True) -> str:
    files = folder.rglob(pattern) if recursive else folder.glob(pattern)
    return "".join(file.read_text(encoding="utf-8", errors="ignore") for file in sorted(files))


def setup(app) -> None:
    app.connect("build-finished", finish)
