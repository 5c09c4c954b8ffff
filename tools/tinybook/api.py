"""Directives for the pages about the package: each public name, with what its docstring says.

    ```{api} tinyattn.patterns
    ```

shows every name of a module, and {api-index} the names of all modules with links.
"""

import inspect
from collections.abc import Mapping
from importlib import import_module
from types import FunctionType, ModuleType

from docutils import nodes
from sphinx import addnodes
from sphinx.util.docutils import SphinxDirective

from tinybook import docstrings

LINE = 88
LONG = 40


def public(module: ModuleType) -> list[str]:
    """The names in `__all__`, or else those that the module itself defines."""
    if hasattr(module, "__all__"):
        return [name for name in module.__all__ if not name.startswith("__")]
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
    ]


def signature(name: str, thing: object) -> str:
    """The call, on one line or a line for each argument."""
    try:
        found = inspect.signature(thing)
    except ValueError:  # built-in
        return name
    constants = vars(import_module(thing.__module__)) if hasattr(thing, "__module__") else {}
    parts, seen = [], set()
    for parameter in found.parameters.values():
        if parameter.kind == parameter.KEYWORD_ONLY and not seen & {"*", "*args"}:
            parts.append("*")
            seen.add("*")
        parts.append(argument(parameter, constants))
        seen.add("*args" if parameter.kind == parameter.VAR_POSITIONAL else "")
    gives = ""
    if not isinstance(thing, type) and found.return_annotation is not found.empty:
        gives = f" -> {in_words(found.return_annotation)}"
    line = f"{name}({', '.join(parts)}){gives}"
    if len(line) <= LINE:
        return line
    return "\n".join([f"{name}(", *(f"    {part}," for part in parts), f"){gives}"])


def argument(parameter: inspect.Parameter, constants: Mapping[str, object]) -> str:
    """As it is written: a default of many words by the name that its module has for it."""
    stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
    text = stars + parameter.name
    typed = parameter.annotation is not parameter.empty
    if typed:
        text += f": {in_words(parameter.annotation)}"
    if parameter.default is not parameter.empty:
        default = parameter.default
        shown = default.__name__ if callable(default) else repr(default)
        if len(shown) > LONG:
            shown = next((name for name, it in constants.items() if it is default), "...")
        text += f" = {shown}" if typed else f"={shown}"
    return text


def in_words(annotation: object) -> str:
    """A type as it was written."""
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    for module in (
        "jaxtyping.",
        "collections.abc.",
        "torch.nn.modules.module.",
        "_axes.",
        "tinyattn.",
    ):
        text = text.replace(module, "")
    return text.replace("'", '"')


def methods(cls: type) -> list[tuple[str, object]]:
    """What the class itself defines and describes, in the order of its source."""
    found = []
    for name, value in vars(cls).items():
        thing = value.__func__ if isinstance(value, classmethod | staticmethod) else value
        described = isinstance(thing, FunctionType | property) and inspect.getdoc(thing)
        if described and not name.startswith("_"):
            found.append((name, thing))
    return found


def place(full_name: str) -> str:
    """The anchor of a name. It has no dots: the search looks it up as a selector, in which
    ".attention" would be a class."""
    return full_name.replace(".", "-")


class Api(SphinxDirective):
    """Every public name of a module, in alphabetical order."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        module = import_module(self.arguments[0])
        names = sorted(public(module), key=str.lower)
        return [
            self.described(f"{module.__name__}.{name}", name, getattr(module, name))
            for name in names
        ]

    def described(self, full_name: str, name: str, thing: object) -> nodes.section:
        section = nodes.section(ids=[place(full_name)], names=[full_name], classes=["api"])
        self.state.document.note_explicit_target(section)
        section += nodes.title("", "", nodes.literal("", name))
        kind = "class" if isinstance(thing, type) else "function" if callable(thing) else "data"
        self.env.get_domain("py").note_object(full_name, kind, place(full_name), location=section)
        if kind == "data":
            section += docstrings.code(f"{name} = {thing!r}", "python")
            return section
        if thing.__name__ != name:
            words = f"The same as `{thing.__name__}`: a short name."
            section += docstrings.paragraph(words)
            return section
        section += docstrings.code(signature(name, thing), "python")
        section += docstrings.parsed(inspect.getdoc(thing) or "")
        if kind == "class":
            for method, code in methods(thing):
                section += self.method(f"{full_name}.{method}", method, code)
        return section

    def method(self, full_name: str, name: str, thing: object) -> nodes.container:
        block = nodes.container(classes=["api-method"], ids=[place(full_name)])
        kind = "attribute" if isinstance(thing, property) else "method"
        self.env.get_domain("py").note_object(full_name, kind, place(full_name), location=block)
        shown = name if isinstance(thing, property) else signature(name, thing)
        block += docstrings.code(shown.replace("(self, ", "(").replace("(self)", "()"), "python")
        block += docstrings.parsed(inspect.getdoc(thing) or "")
        return block


class ApiIndex(SphinxDirective):
    """The names of modules as a table: module, what it is, its names."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        items = []
        for module_name in self.content:
            module = import_module(module_name)
            about = (inspect.getdoc(module) or "").splitlines()[0].removeprefix(f"{module_name}: ")
            line = docstrings.paragraph(f"`{module_name}`: {about}")
            items.append(nodes.list_item("", line, self.links(module)))
        return [nodes.bullet_list("", *items)]

    def links(self, module: ModuleType) -> nodes.paragraph:
        line = nodes.paragraph(classes=["api-names"])
        for name in sorted(public(module), key=str.lower):
            if line.children:
                line += nodes.Text(" · ")
            target = f"{module.__name__}.{name}"
            line += addnodes.pending_xref(
                "", nodes.literal("", name), refdomain="py", reftype="obj", reftarget=target,
                refexplicit=True, refwarn=True, refdoc=self.env.docname,
            )  # fmt: skip
        return line


def setup(app) -> None:
    app.add_directive("api", Api)
    app.add_directive("api-index", ApiIndex)
