"""Last corrections in the pages that were written: what no template of the theme lets one say."""

import re
from pathlib import Path

CHINESE = re.compile(
    r"[\u3400-\u9fff\u3000-\u303f\uff00-\uffef]*[\u3400-\u9fff]+[\u3400-\u9fff\u3000-\u303f\uff00-\uffef]*"
)
UNTOUCHED = re.compile(r"(<(script|style|title|textarea)\b.*?</\2>|<!--.*?-->|<[^>]*>)", re.DOTALL)
CELL = re.compile(r"<td\b.*?</td>", re.DOTALL)
CODE = re.compile(r'(?<=<span class="pre">)[^<]+')
UNFOLDS = re.compile(
    r'(<a class="(?:current )?reference internal" href="[^"]*">\s*)([^<]+)(</a>\s*<details[^>]*>\s*<summary)>'
)
NO_ICONS = re.compile(
    r'\s*<script src="[^"]*/fontawesome\.js[^"]*"></script>'
)  # weight.py empties it
LONG_NAME = 16
FOLD = '<summary aria-label="Toggle hidden content">'  # which hides what is written on it
ADDRESS = re.compile(r'(?<=href=")[^"]+')


def corrected(page: str) -> str:
    """Chinese words named as such and unfolding parts of the menu by name, for whoever hears the
    page; places to break in names in tables; folded cells by what is written on them; no script that is
    empty; & escaped in addresses."""
    parts = UNTOUCHED.split(page)
    page = "".join(
        CHINESE.sub(r'<span lang="zh-Hans">\g<0></span>', part) if place % 3 == 0 else part
        for place, part in enumerate(parts)
        if place % 3 != 2  # the name of the element, which is in the part before
    )
    page = NO_ICONS.sub("", page).replace(FOLD, "<summary>")
    page = UNFOLDS.sub(r'\1\2\3 aria-label="Pages of: \2">', page)
    page = CELL.sub(lambda cell: CODE.sub(breakable, cell[0]), page)
    return ADDRESS.sub(lambda match: re.sub(r"&(?!\w+;|#)", "&amp;", match[0]), page)


def breakable(name: re.Match) -> str:
    """A name that needs no line of its own stays whole."""
    if len(name[0]) < LONG_NAME:
        return name[0]
    return re.sub(r"(?<=\w)([._/])(?=\w)", r"\1<wbr>", name[0])


def front(first: str, page: str) -> str:
    """The address of the whole book: it leads to its first page, and has its title and picture."""
    title = re.search(r"<title>.*?</title>", page, re.DOTALL)[0]
    tags = re.findall(r'<meta (?:property="og:|name="(?:description|twitter))[^>]*>', page)
    head = "\n".join(
        [
            '<meta charset="utf-8">',
            f'<meta http-equiv="refresh" content="0; url={first}">',
            title,
            *tags,
        ]
    )
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n{head}\n</head>\n'
        f'<body><p><a href="{first}">The book</a></p></body>\n</html>\n'
    )


def finish(app, exception) -> None:
    if exception is None and app.builder.format == "html":
        for file in Path(app.outdir).rglob("*.html"):
            page = file.read_text(encoding="utf-8")
            file.write_text(corrected(page), encoding="utf-8")
        first = f"{app.config.root_doc}.html"
        page = (Path(app.outdir) / first).read_text(encoding="utf-8")
        (Path(app.outdir) / "index.html").write_text(front(first, page), encoding="utf-8")


def setup(app) -> None:
    app.connect("build-finished", finish, priority=900)
