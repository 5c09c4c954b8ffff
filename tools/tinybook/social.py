"""The picture and the words that other sites show for a link to a page, and the book's cover."""

import html
import re
import textwrap
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tinyattn.patterns import Causal, Full, Pattern, Window, bigbird, longformer, sparse_strided
from tinyattn.show.draw import ALLOWED, FORBIDDEN

PICTURE = "_static/social.png"
WIDTH, HEIGHT, INCH = 1200, 630, 100
LETTERS = 30  # of the title in a line
COVER_PICTURE = "_static/cover.png"
COVER = (8.27, 11.69)  # A4, in inches
COVER_LETTERS = 24
BELOW = "An interactive book: every figure is computed, every claim is tested."
INK, PALE_INK = "#1a2233", "#45526b"
N = 24
WORDS = "Six attention patterns as grids of dots, from full attention to BigBird, above the book's title."


def address(repository: str) -> str:
    """Where GitHub publishes the pages of a repository, with / at the end."""
    owner, name = re.fullmatch(r"https://github\.com/([\w.-]+)/([\w.-]+)", repository).groups()
    return f"https://{owner.lower()}.github.io/{name}/"


def draw(title: str, below: str) -> Figure:
    """Six patterns in a row, and the title under them."""
    figure = Figure(figsize=(WIDTH / INCH, HEIGHT / INCH), dpi=INCH, facecolor="white")
    for column, rule in enumerate(rules()):
        box = (0.05 + column * 0.152, 0.56, 0.14, 0.14 * WIDTH / HEIGHT)
        dots(figure.add_axes(box), rule, size=20)
    for place, line in zip((0.36, 0.245), textwrap.wrap(title, LETTERS), strict=True):
        figure.text(0.05, place, line, fontsize=42, weight="bold", color=INK)
    figure.text(0.05, 0.11, below, fontsize=22, color=PALE_INK)
    return figure


def draw_cover(title: str, below: str, author: str) -> Figure:
    """The same six on an upright page, the title over them."""
    figure = Figure(figsize=COVER, dpi=INCH, facecolor="white")
    lines = textwrap.wrap(title, COVER_LETTERS)
    for place, line in enumerate(lines):
        figure.text(0.09, 0.89 - 0.055 * place, line, fontsize=36, weight="bold", color=INK)
    under = 0.89 - 0.055 * len(lines)
    for place, line in enumerate(textwrap.wrap(below, COVER_LETTERS * 2)):
        figure.text(0.09, under - 0.03 * place, line, fontsize=17, color=PALE_INK)
    for place, rule in enumerate(rules()):
        row, column = divmod(place, 2)
        width, height = 0.27, 0.27 * COVER[0] / COVER[1]
        box = (0.09 + column * 0.4, 0.485 - row * (height + 0.012), width, height)
        dots(figure.add_axes(box), rule, size=24)
    figure.text(0.09, 0.035, author, fontsize=14, color=PALE_INK)
    return figure


def rules() -> list[Pattern]:
    return [
        Full(), Causal(), Window(2), sparse_strided(5), longformer(2, 2), bigbird(N, 2, 1, seed=4),
    ]  # fmt: skip


def dots(ax: Axes, rule: Pattern, size: float) -> None:
    """A dot for each pair, larger where it is allowed."""
    mask = rule.mask(N)
    i, j = (~mask).nonzero(as_tuple=True)
    ax.scatter(j, i, s=size / 4, c=FORBIDDEN, marker="s", linewidths=0)
    i, j = mask.nonzero(as_tuple=True)
    ax.scatter(j, i, s=size, c=ALLOWED, marker="s", linewidths=0)
    ax.set(xlim=(-1, N), ylim=(N, -1))
    ax.axis("off")


def finish(app, exception) -> None:
    if exception is None and app.builder.format == "html":
        site, title = Path(app.outdir), app.config.html_title
        draw(title, BELOW).savefig(site / PICTURE)
        draw_cover(title, BELOW, f"by {app.config.author}").savefig(site / COVER_PICTURE)


def add_tags(app, pagename, templatename, context, doctree) -> None:
    base = address(app.config.html_theme_options["repository_url"])
    found = re.search(r'<meta name="description" content="([^"]*)"', context.get("metatags", ""))
    title = html.escape(re.sub(r"<[^>]+>", "", context.get("title", "")) or app.config.html_title)
    tags = {
        "og:type": "website" if pagename == app.config.root_doc else "article",
        "og:site_name": html.escape(app.config.html_title),
        "og:title": title,
        "og:description": found[1] if found else html.escape(app.config.html_title),
        "og:url": f"{base}{pagename}.html",
        "og:image": base + PICTURE,
        "og:image:width": str(WIDTH),
        "og:image:height": str(HEIGHT),
        "og:image:alt": WORDS,
    }
    lines = [f'<meta property="{name}" content="{value}" />' for name, value in tags.items()]
    lines.append('<meta name="twitter:card" content="summary_large_image" />')
    context["metatags"] = context.get("metatags", "") + "\n".join(lines) + "\n"


def setup(app) -> None:
    app.connect("build-finished", finish)
    app.connect("html-page-context", add_tags, priority=910)
