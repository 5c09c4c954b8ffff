"""The survey's tree of Transformers as nested lists that open and close without a kernel."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape

TITLES = {
    "01_attention": "Attention",
    "02_transformer": "What stands around attention",
    "03_usage": "Three ways to use it",
    "04_complexity": "What attention costs",
    "05_comparison": "Attention beside other layers",
    "07_atomic": "Five atoms of sparse attention",
    "08_compound": "Patterns from patterns",
    "09_extended": "Patterns that know the shape of their data",
    "10_lsh": "Attention by hashing",
    "11_clustering": "Meeting in clusters",
    "12_learned": "Connections that are learned",
}
HERE = "06_taxonomy"  # the page that the tree stands on


@dataclass(frozen=True)
class Node:
    """A family, or a model of one.

    Args:
        name: as the survey calls it.
        about: what it does, in half a sentence.
        chapter: the chapter that treats it, without ".ipynb".
        code: its name in the package, below `tinyattn`.
        parts: what it divides into.

    Example:
        >>> Node("Performer").where
        'outside this book'
        >>> Node("Linformer", code="families.Linformer").where
        'no chapter; in the package as families.Linformer'
    """

    name: str
    about: str = ""
    chapter: str | None = None
    code: str | None = None
    parts: tuple[Node, ...] = ()

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("a node needs a name, got ''")
        if self.chapter not in (None, HERE, *TITLES):
            raise ValueError(f"chapter must be {HERE} or one of TITLES, got {self.chapter!r}")

    @property
    def where(self) -> str:
        """Where to read on, in words."""
        if self.chapter == HERE:
            return "on this page" + (f", as {self.code}" if self.code else "")
        if self.chapter is not None:
            return TITLES[self.chapter]
        if self.code is not None:
            return f"no chapter; in the package as {self.code}"
        return "outside this book"

    def walk(self) -> Iterator[Node]:
        """This node and all below it, from top to bottom."""
        yield self
        for part in self.parts:
            yield from part.walk()


def _outside(*names: str) -> tuple[Node, ...]:
    return tuple(Node(name) for name in names)


def _in(chapter: str, **codes: str) -> tuple[Node, ...]:
    """Models of one chapter by name; "_" stands for a blank, "__" for a hyphen."""
    return tuple(
        Node(name.replace("__", "-").replace("_", " "), chapter=chapter, code=code)
        for name, code in codes.items()
    )


SPARSE = Node(
    "Sparse",
    "leave pairs out",
    parts=(
        Node(
            "By position",
            "who reads whom is settled before a token is seen",
            "07_atomic",
            parts=(
                *_in(
                    "08_compound",
                    Star__Transformer="transformer.StarTransformer",
                    Longformer="patterns.longformer",
                    ETC="patterns.etc",
                    BigBird="patterns.bigbird",
                    Sparse_Transformer="patterns.sparse_strided",
                ),
                *_in(
                    "09_extended",
                    BP__Transformer="patterns.bp_transformer",
                    Image_Transformer="patterns.image_2d",
                    Axial_Transformer="transformer.AxialTransformer",
                ),
            ),
        ),
        Node(
            "By content",
            "the tokens decide",
            parts=(
                Node("Reformer", "hashing", "10_lsh", "content.lsh_attention"),
                Node("Routing Transformer", "clusters", "11_clustering", "content.RoutingRouter"),
                Node("SAC", "edges that are predicted", "12_learned", "content.SACRouter"),
                Node(
                    "Sparse Sinkhorn Attention", "sorting", "12_learned", "content.SinkhornRouter"
                ),
            ),
        ),
    ),
)

ATTENTION = Node(
    "Attention",
    "ways to change one matrix, or to know it beforehand",
    HERE,
    parts=(
        SPARSE,
        Node(
            "Linearized",
            "features instead of exp, keys first",
            parts=(
                Node("Linear Transformer", "", HERE, "families.linear_attention"),
                *_outside("Performer", "RFA", "Delta Net"),
            ),
        ),
        Node("Prototype", "fewer queries", parts=_outside("Clustered Attention", "Informer")),
        Node(
            "Memory compression",
            "fewer keys and values",
            parts=(
                Node("Linformer", "", HERE, "families.Linformer"),
                *_outside("MCA", "Set Transformer"),
            ),
        ),
        Node(
            "Low rank",
            "thin matrices whose product stands for the square one",
            parts=(
                Node("Nyströmformer", "", HERE, "families.nystrom_attention"),
                *_outside("Low-rank Attention", "CSALR"),
            ),
        ),
        Node(
            "Attention with prior",
            "a belief beside the scores, or instead of them",
            parts=(
                Node("Local Transformer, Gaussian Transformer", "", HERE, "families.gaussian_prior"),
                Node("From lower layers", "", parts=_outside("Predictive Attention Transformer", "Realformer", "Lazyformer")),
                Node("For several tasks", "", parts=_outside("CAMTL")),
                Node(
                    "Prior only",
                    "",
                    parts=(
                        Node("Average Attention, Hard-Coded Gaussian Attention", "", HERE, "families.prior_attention"),
                        Node("Synthesizer"),
                    ),
                ),
            ),
        ),
        Node(
            "Improved heads",
            "heads that share, or talk",
            parts=(
                Node("Talking-head", "", HERE, "families.talking_heads_attention"),
                Node("Multi-query, grouped-query", "in the survey's text, not its tree", HERE, "families.grouped_attention"),
                *_outside("Li 2018", "Deshpande & Narasimhan 2020", "Collaborative MHA"),
                Node("Restricted spans", "", parts=_outside("Adaptive Attention Span", "Multi-Scale Transformer")),
                Node("Dynamic routing", "", parts=_outside("Li 2019", "Gu & Feng 2019")),
            ),
        ),
    ),
)  # fmt: skip

MODULES = Node(
    "Module level",
    "change a part of the layer",
    parts=(
        ATTENTION,
        Node(
            "Position encoding",
            "where a token stands",
            "02_transformer",
            parts=(
                Node("Absolute", "", "02_transformer", "transformer.Sinusoidal", _outside("FLOATER", "learned frequencies")),
                Node(
                    "Relative",
                    "",
                    parts=(
                        Node("Shaw 2018", "", "02_transformer", "transformer.Shaw"),
                        Node("T5", "", "02_transformer", "transformer.T5Bias"),
                        *_outside("Music Transformer", "Transformer-XL", "DeBERTa"),
                    ),
                ),
                Node("Other representations", "", parts=(Node("RoFormer", "", "02_transformer", "transformer.RoPE"), Node("TUPE"))),
                Node("Implicit", "", parts=_outside("Complex Embedding", "R-Transformer", "CPE")),
            ),
        ),
        Node(
            "LayerNorm",
            "a token on a common scale",
            parts=(
                Node("Placement: post-norm, pre-norm", "", "02_transformer", "transformer.Residual"),
                Node("Substitutes", "", parts=_outside("AdaNorm", "scaled l2 norm", "PowerNorm")),
                Node("Norm-free", "", parts=_outside("ReZero-Transformer")),
            ),
        ),
        Node(
            "Feed-forward layer",
            "each token by itself",
            "02_transformer",
            parts=(
                Node("Activation", "", parts=_outside("Swish", "GELU", "GLU")),
                Node("More capacity", "", parts=_outside("Product-key Memory", "GShard", "Switch", "Expert Prototyping", "Hash Layer")),
                Node("Dropping it", "", parts=_outside("All-Attention layer", "Yang 2020")),
            ),
        ),
    ),
)  # fmt: skip

ARCHITECTURES = Node(
    "Architecture level",
    "change how layers are put together",
    parts=(
        Node("Lightweight", "", parts=_outside("Lite Transformer", "Funnel Transformer", "DeLighT")),
        Node("Connectivity", "", parts=_outside("Realformer", "Predictive Attention Transformer", "Transparent Attention", "Feedback Transformer")),
        Node("Adaptive computation time", "", parts=_outside("Universal Transformer", "Conditional Computation Transformer", "DeeBERT", "PABEE", "Li 2021", "Sun 2021")),
        Node("Divide and conquer: recurrence", "", parts=_outside("Transformer-XL", "Compressive Transformer", "Memformer", "Yoshida 2020", "ERNIE-Doc")),
        Node("Divide and conquer: hierarchy", "", parts=_outside("Miculicich 2018", "HIBERT", "Liu & Lapata 2019", "Hi-Transformer", "TENER", "TNT")),
        Node("Alternatives", "", parts=_outside("Evolved Transformer", "Macaron", "Sandwich", "MAN", "DARTSformer")),
    ),
)  # fmt: skip

USES = (
    Node("Pre-trained models", "", parts=(
        Node("Encoder only", "the form; BERT, RoBERTa and BigBird's weights are outside", "03_usage", "transformer.Encoder"),
        Node("Decoder only", "the form; GPT to GPT-3 are outside", "03_usage", "transformer.Decoder"),
        Node("Encoder and decoder", "the form; BART, T5 and Switch Transformer are outside", "03_usage", "transformer.Seq2Seq"),
    )),
    Node("Applications", "", parts=_outside("Text", "Images", "Audio", "Several kinds at once")),
)  # fmt: skip

TREE = Node("X-formers", "variants of the Transformer", parts=(MODULES, ARCHITECTURES, *USES))


class Outline:
    """A tree that a page shows as lists; Tab and Enter open and close them.

    It is plain html, <details> in a list, so that it works without JavaScript and is read aloud
    as a list. It sets no ids, and stands on a page beside anything else, also beside itself.

    Args:
        tree: its root is the heading, and not an item.
        open_levels: how many levels of parts stand open at first.

    Example:
        >>> print(Outline(Node("heads", parts=(Node("talking"), Node("silent")))))
        heads
          talking: outside this book
          silent: outside this book
    """

    def __init__(self, tree: Node = TREE, *, open_levels: int = 2) -> None:
        if open_levels < 0:
            raise ValueError(f"open_levels must be 0 or more, got {open_levels}")
        self.tree, self.open_levels = tree, open_levels

    def __repr__(self) -> str:
        return "\n".join(_lines(self.tree, 0))

    def _repr_html_(self) -> str:
        items = "".join(_item(part, self.open_levels) for part in self.tree.parts)
        label = escape(f"{self.tree.name}: {self.tree.about}".removesuffix(": "))
        return f'<nav class="tinyattn-tree" aria-label="{label}"><ul>{items}</ul></nav>'


def _lines(node: Node, depth: int) -> Iterator[str]:
    silent = depth == 0 or (node.parts and not node.chapter)
    yield "  " * depth + node.name + ("" if silent else f": {node.where}")
    for part in node.parts:
        yield from _lines(part, depth + 1)


def _item(node: Node, open_levels: int, *, told: bool = False) -> str:
    """A node and what is below it; `told` if one above says already that all of it is outside."""
    name = f"<strong>{escape(node.name)}</strong>" if node.parts else escape(node.name)
    about = f", {escape(node.about)}" if node.about else ""
    outside = not any(below.chapter or below.code for below in node.walk())
    if not node.parts:
        return f"<li>{name}{about}{'' if told else f' ({_where(node)})'}</li>"
    parts = "".join(_item(part, open_levels - 1, told=outside) for part in node.parts)
    if outside and not told:
        about += " (outside this book)"
    link = f"<p>Read: {_where(node)}</p>" if node.chapter and node.chapter != HERE else ""
    state = " open" if open_levels > 0 else ""
    return (
        f"<li><details{state}><summary>{name}{about}</summary>{link}<ul>{parts}</ul></details></li>"
    )


def _where(node: Node) -> str:
    if node.chapter in (None, HERE):
        return escape(node.where)
    return f'<a href="{node.chapter}.html">{escape(node.where)}</a>'
