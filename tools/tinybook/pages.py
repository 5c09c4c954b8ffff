"""What a page needs beyond what Sphinx, the theme and myst-nb write."""

import html
import re

from docutils import nodes
from myst_nb.core.render import NbElementRenderer

DESCRIPTION_CHARACTERS = 155


def fix_page(app, pagename, templatename, context, doctree) -> None:
    scripts = context.get("script_files", [])
    scripts = [script for script in without_copies(scripts) if not is_thebe(script)]
    if templatename != "search.html":  # whose own scripts do not wait, and need the others
        scripts = [waiting(script) for script in scripts]
    context["script_files"] = scripts
    # Screen readers no longer know docutils' role for a reference in a list of references.
    if "body" in context:
        context["body"] = context["body"].replace('role="doc-biblioentry"', 'role="listitem"')
    description = doctree and first_sentences(doctree)
    if description:
        context["metatags"] += f'<meta name="description" content="{description}" />\n'


def without_copies(scripts) -> list:
    """The scripts without repeats: Sphinx runs a script as often as extensions name it."""
    return list({(str(script), script_body(script)): script for script in scripts}.values())


def is_thebe(script) -> bool:
    """Thebe's own scripts: loaded by Jupyter Book although the book has no live cells."""
    return "sphinx-thebe" in str(script) or "THEBE_JS_URL" in script_body(script)


def waiting(script):
    """The script, told to wait until the page is parsed: words are shown before any of it runs.

    Not the one with the options that a line in the page itself changes.
    """
    if not getattr(script, "filename", None) or "documentation_options" in str(script.filename):
        return script
    attributes = {"defer": "defer"} | script.attributes
    return type(script)(script.filename, priority=script.priority, **attributes)


def script_body(script) -> str:
    return (getattr(script, "attributes", None) or {}).get("body") or ""


def first_sentences(doctree) -> str:
    """The page's first paragraph that says something, cut to what search engines show."""
    for paragraph in doctree.findall(nodes.paragraph):
        text = re.sub(r"\s+", " ", paragraph.astext()).strip()
        if len(text) > 20:
            return html.escape(text[:DESCRIPTION_CHARACTERS])
    return ""


def give_images_their_alt_text() -> None:
    """Read the alt text from an output's metadata; myst-nb reads only width and height there."""
    render_image = NbElementRenderer.render_image

    def render_image_with_alt(self, data):
        rendered = render_image(self, data)
        alt = data.output_metadata.get(data.mime_type, {}).get("alt")
        if alt:
            for image in rendered:
                image.setdefault("alt", alt)
        return rendered

    NbElementRenderer.render_image = render_image_with_alt


def setup(app) -> None:
    give_images_their_alt_text()
    app.connect("html-page-context", fix_page, priority=900)
