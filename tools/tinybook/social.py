"""The picture and the words that other sites show for a link to a page."""

import html
import re
import textwrap
from pathlib import Path

from matplotlib.figure import Figure

from tinyattn.patterns import Causal, Full, Window, bigbird, longformer, sparse_strided
from tinyattn.show.draw import ALLOWED, FORBIDDEN

PICTURE = "_static/social.png"
WIDTH, HEIGHT, INCH = 1200, 630, 100
LETTERS = 30  # of the title in a line
WORDS = "Six attention patterns as grids of dots, from full attention to BigBird, above the book's title."


def address(repository: str) -> str:
    """Where GitHub publishes the pages of a repository, with / at the end."""
    owner, name = re.fullmatch(r"https://github\.com/([\w.-]+)/([\w.-]+)", repository).groups()
    return f"https://{owner.lower()}.github.io/{name}/"


def draw(title: str, below: str) -> Figure:
    """Six patterns in a row, and the title under them."""
    n = 24
    rules = [
        Full(), Causal(), Window(2), sparse_strided(5), longformer(2, 2), bigbird(n, 2, 1, seed=4),
    ]  # fmt: skip
    figure = Figure(figsize=(WIDTH / INCH, HEIGHT / INCH), dpi=INCH, facecolor="white")
    for column, rule in enumerate(rules):
        ax = figure.add_axes((0.05 + column * 0.152, 0.56, 0.14, 0.14 * WIDTH / HEIGHT))
        mask = rule.mask(n)
        i, j = mask.nonzero(as_tuple=True)
        ax.scatter(
            *(~mask).nonzero(as_tuple=True)[::-1], s=5, c=FORBIDDEN, marker="s", linewidths=0
        )
        ax.scatter(j, i, s=20, c=ALLOWED, marker="s", linewidths=0)
        ax.set(xlim=(-1, n), ylim=(n, -1))
        ax.axis("off")
    first, second = textwrap.wrap(title, LETTERS)
    figure.text(0.05, 0.36, first, fontsize=42, weight="bold", color="#1a2233")
    figure.text(0.05, 0.245, second, fontsize=42, weight="bold", color="#1a2233")
    figure.text(0.05, 0.11, below, fontsize=22, color="#45526b")
    return figure


def finish(app, exception) -> None:
    if exception is None and app.builder.format == "html":
        below = "An interactive book: every figure is computed, every claim is tested."
        draw(app.config.html_title, below).savefig(Path(app.outdir) / PICTURE)


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
