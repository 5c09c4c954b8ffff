"""The theme's style sheets without rules for what no page has: a third of what a phone waits for.

Bootstrap, the theme and two extensions send 80 KB of rules, compressed, before a page shows a word,
and nine in ten of them are for buttons, menus and languages that this book has nowhere. A rule goes
if each of its selectors asks for a class whose name stands in no page and no script. Names that
scripts put together ("bs-" and a side) stay.
"""

import re
from collections.abc import Iterator
from pathlib import Path

SHEETS = ("styles/pydata-sphinx-theme.css", "mystnb.*.css", "sphinx-design.min.css")
PUT_TOGETHER = "bs-"
CLASS = re.compile(r"\.(-?[A-Za-z_][\w-]*)")
COMMENT = re.compile(r"/\*(!?).*?\*/", re.DOTALL)
STRING = re.compile(r"""(["'])(?:\\.|(?!\1).)*\1""", re.DOTALL)
GROUPS = ("@media", "@supports", "@layer")


def finish(app, exception) -> None:
    if exception is None and app.builder.format == "html":
        site = Path(app.outdir)
        names = words(site)
        for sheet in SHEETS:
            for file in (site / "_static").glob(sheet):
                file.write_text(cut(file.read_text(encoding="utf-8"), names), encoding="utf-8")


def words(site: Path) -> set[str]:
    """Everything that could be the name of a class, in pages and in scripts."""
    files = [file for kind in ("html", "js") for file in site.rglob(f"*.{kind}")]
    return {
        word
        for file in files
        for word in re.findall(r"[\w-]+", file.read_text(encoding="utf-8", errors="ignore"))
    }


def cut(sheet: str, names: set[str]) -> str:
    """The sheet without the rules that none of these names can need; notices of licence stay."""
    notices = [match[0] for match in COMMENT.finditer(sheet) if match[1]]
    return "".join(f"{notice}\n" for notice in notices) + needed(COMMENT.sub("", sheet), names)


def needed(sheet: str, names: set[str]) -> str:
    parts = []
    for head, body in rules(sheet):
        if body is None:
            parts.append(f"{head};")
        elif head.startswith(GROUPS):
            inside = needed(body, names)
            parts += [f"{head}{{{inside}}}"] if inside else []
        elif head.startswith("@"):
            parts.append(f"{head}{{{body}}}")
        else:
            kept = [one for one in selectors(head) if may_match(one, names)]
            parts += [f"{','.join(kept)}{{{body}}}"] if kept else []
    return "".join(parts)


def rules(sheet: str) -> Iterator[tuple[str, str | None]]:
    """Head and body of each rule; a line like @charset has no body."""
    hidden = STRING.sub(lambda text: "_" * len(text[0]), sheet)  # braces in strings do not count
    start = depth = opened = 0
    for mark in re.finditer(r"[{};]", hidden):
        if mark[0] == "{":
            opened = opened if depth else mark.start()
            depth += 1
        elif mark[0] == "}":
            depth -= 1
        if depth == 0:
            body = sheet[opened + 1 : mark.start()] if mark[0] == "}" else None
            end = opened if mark[0] == "}" else mark.start()
            yield sheet[start:end].strip(), body
            start = mark.end()


def selectors(head: str) -> list[str]:
    """The selectors of a rule: between commas that stand in no brackets."""
    hidden = re.sub(r"\[[^\]]*\]", lambda text: "_" * len(text[0]), head)
    while (shorter := re.sub(r"\([^()]*\)", lambda text: "_" * len(text[0]), hidden)) != hidden:
        hidden = shorter
    ends = [mark.start() for mark in re.finditer(",", hidden)]
    return [head[a:b] for a, b in zip([0, *(e + 1 for e in ends)], [*ends, len(head)], strict=True)]


def may_match(selector: str, names: set[str]) -> bool:
    """Whether all classes it asks for have a known name; what :is() and :not() hold is not asked."""
    while (shorter := re.sub(r"\([^()]*\)", "", selector)) != selector:
        selector = shorter
    asked = CLASS.findall(re.sub(r"\[[^\]]*\]", "", selector))
    return all(name in names or name.startswith(PUT_TOGETHER) for name in asked)


def setup(app) -> None:
    app.connect("build-finished", finish, priority=950)
