"""What of the survey's sections 2 to 4 the book treats, where, and what it does not."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

HOLE = "**none**"


@dataclass(frozen=True)
class Entry:
    """One node of the survey, and where it is found here.

    Args:
        section: of the survey.
        what: the node.
        chapter: below `book/`, without ".ipynb"; None is a hole.
        code: public names below `tinyattn`; none is a hole.
        tests: files below `tests/`; none is a hole.
        figure: the heading in the chapter under which it is drawn; None is a hole.
        exercises: names of exercises that ask about it; none is a hole.
    """

    section: str
    what: str
    chapter: str | None = None
    code: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()
    figure: str | None = None
    exercises: tuple[str, ...] = ()

    @property
    def holes(self) -> int:
        """How many of the five places are empty."""
        places = (self.chapter, self.code, self.tests, self.figure, self.exercises)
        return sum(not place for place in places)


ENTRIES = (
    Entry("2.1.1", "Scaled dot-product attention", "01_attention", ("attention",), ("test_dense.py",), "One query, six keys", exercises=("attention/row", "attention/spread", "attention/tell_apart")),
    Entry("2.1.1", "Multi-head attention", "01_attention", ("MultiHeadAttention",), ("transformer/test_attention.py",), "Heads: several readings at once", exercises=("attention/heads",)),
    Entry("2.1.1", "Masked self-attention", "01_attention", ("patterns.Causal",), ("patterns/test_positional.py",), "Masks: who may read whom", exercises=("attention/masked", "usage/causal")),
    Entry("2.1.1", "Cross-attention", "01_attention", ("MultiHeadAttention",), ("transformer/test_attention.py",), "Cross-attention: asking another sequence"),
    Entry("2.1.2", "Feed-forward layer", "02_transformer", ("transformer.FeedForward",), ("transformer/test_feedforward.py",), "Each token by itself: the feed-forward layer"),
    Entry("2.1.3", "Residuals and LayerNorm", "02_transformer", ("transformer.Residual",), ("transformer/test_blocks.py",), "Deep stacks: residual connections and LayerNorm", exercises=("transformer/layer_norm", "transformer/order")),
    Entry("2.1.4", "Position encodings", "02_transformer", ("transformer.Sinusoidal", "transformer.Shaw", "transformer.RoPE"), ("transformer/test_positions.py", "transformer/test_relative.py"), "Order: where a token stands", exercises=("transformer/positions", "transformer/move")),
    Entry("2.2", "Encoder and decoder", "03_usage", ("transformer.Seq2Seq",), ("transformer/test_models.py",), "Encoder and decoder: dates"),
    Entry("2.2", "Encoder only", "03_usage", ("transformer.Encoder",), ("transformer/test_models.py",), "Encoder only: digits"),
    Entry("2.2", "Decoder only", "03_usage", ("transformer.Decoder",), ("transformer/test_models.py", "transformer/test_cache.py"), "Decoder only: a manual, character by character", exercises=("usage/cached", "usage/bits", "usage/sample", "usage/greedy")),
    Entry("2.3", "Cost, table 1", "04_complexity", ("analysis.attention_cost", "analysis.ffn_cost"), ("analysis/test_complexity.py",), "Three crossovers", exercises=("complexity/count", "complexity/crossover", "complexity/exponent", "complexity/bytes")),
    Entry("2.4.1", "Other layers, table 2", "05_comparison", ("families.Convolution", "families.Recurrence", "families.FullyConnected", "analysis.dependencies"), ("families/test_layers.py", "analysis/test_support.py"), "How far is it from one end to the other?", exercises=("comparison/paths", "comparison/stacks")),
    Entry("2.4.2", "Inductive bias", "05_comparison", ("experiments.few_digits.fit",), ("experiments/test_few_digits.py",), "Few labels and many", exercises=("comparison/symmetries",)),
    Entry("2.4.2", "Transformers as graphs", "05_comparison", ("content.edges.edge_attention", "analysis.path_lengths"), ("content/test_edges.py", "analysis/test_graphs.py"), "Attention is message passing on a graph", exercises=("comparison/messages", "comparison/hops")),
    Entry("3", "Taxonomy", "06_taxonomy", ("show.Outline",), ("show/test_taxonomy.py",), "The survey's tree"),
    Entry("4.1.1.1", "Global", "07_atomic", ("patterns.Global",), ("patterns/test_global.py",), "Global: a few tokens for everybody", exercises=("atomic/global",)),
    Entry("4.1.1.1", "Band", "07_atomic", ("patterns.Window",), ("patterns/test_atoms.py",), "Band: the neighbours", exercises=("atomic/pairs",)),
    Entry("4.1.1.1", "Dilated", "07_atomic", ("patterns.Dilated",), ("patterns/test_atoms.py",), "Dilated: neighbours with gaps", exercises=("atomic/dilated", "atomic/widest")),
    Entry("4.1.1.1", "Random", "07_atomic", ("patterns.Random",), ("patterns/test_random.py",), "Random: links to anywhere", exercises=("atomic/live",)),
    Entry("4.1.1.1", "Block local", "07_atomic", ("patterns.BlockLocal",), ("patterns/test_atoms.py",), "Block local: cut the text"),
    Entry("4.1.1.2", "Star-Transformer", "08_compound", ("transformer.StarTransformer",), ("transformer/test_star.py",), "Longformer", exercises=("compound/two_hops",)),
    Entry("4.1.1.2", "Longformer", "08_compound", ("patterns.longformer", "transformer.LongformerAttention"), ("transformer/test_longformer.py",), "Longformer", exercises=("compound/once", "compound/place")),
    Entry("4.1.1.2", "ETC", "08_compound", ("patterns.etc", "transformer.EtcPositions"), ("transformer/test_etc.py",), "ETC"),
    Entry("4.1.1.2", "BigBird", "08_compound", ("patterns.bigbird",), ("patterns/test_named.py",), "BigBird", exercises=("compound/random_blocks",)),
    Entry("4.1.1.2", "Sparse Transformer", "08_compound", ("patterns.sparse_strided", "patterns.sparse_fixed"), ("patterns/test_named.py",), "Sparse Transformer, strided and fixed"),
    Entry("4.1.1.3", "BP-Transformer", "09_extended", ("patterns.bp_transformer", "transformer.BPTransformer"), ("patterns/test_tree.py", "transformer/test_tree_layers.py"), "A tree over eight words", exercises=("extended/walk", "extended/parent")),
    Entry("4.1.1.3", "Image Transformer", "09_extended", ("patterns.image_1d", "patterns.image_2d"), ("patterns/test_grid.py",), "Tiles, and the order of generation", exercises=("extended/tiles", "extended/order", "extended/seams")),
    Entry("4.1.1.3", "Axial Transformer", "09_extended", ("transformer.AxialTransformer",), ("transformer/test_axial.py",), "What one pixel of a photograph may know", exercises=("extended/corner",)),
    Entry("4.1.2", "Routing Transformer", "11_clustering", ("content.RoutingRouter",), ("content/test_routing.py",), "Two rules of membership", exercises=("clustering/mask", "clustering/step", "clustering/leak")),
    Entry("4.1.2", "Reformer", "10_lsh", ("content.lsh_attention",), ("content/test_lsh.py", "content/test_hashing.py"), "From buckets to chunks, on 16 tokens", exercises=("lsh/hash", "lsh/chunks", "lsh/merge")),
    Entry("4.1.2", "SAC", "12_learned", ("content.SACRouter",), ("content/test_sac.py",), "An LSTM that draws edges", exercises=("learned/straight", "learned/gradient", "learned/rows")),
    Entry("4.1.2", "Sparse Sinkhorn Attention", "12_learned", ("content.SinkhornRouter", "content.sinkhorn_attention"), ("content/test_sinkhorn.py", "content/test_sorting.py"), "Nearly a permutation", exercises=("learned/sinkhorn", "learned/causal", "learned/gumbel")),
    Entry("4.2", "Linear Transformer", "06_taxonomy", ("families.linear_attention",), ("families/test_linear.py",), "Side by side", exercises=("taxonomy/recurrent", "taxonomy/needle")),
    Entry("4.2.1", "Performer, RFA"),
    Entry("4.2.1, 4.2.2", "Delta Net"),
    Entry("4.3.1", "Clustered Attention, Informer"),
    Entry("4.3.2", "Linformer", "06_taxonomy", ("families.Linformer", "families.compressed_attention"), ("families/test_compress.py",), "Side by side"),
    Entry("4.3.2", "MCA, Set Transformer, Luna, Poolingformer"),
    Entry("4.4.1", "Low-rank and band, by parameters"),
    Entry("4.4.2", "Nyströmformer", "06_taxonomy", ("families.nystrom_attention",), ("families/test_low_rank.py",), "Side by side"),
    Entry("4.4.2", "CSALR"),
    Entry("4.5.1", "Locality as a prior", "06_taxonomy", ("families.gaussian_prior",), ("families/test_prior.py",), "Side by side"),
    Entry("4.5.2", "Prior from lower layers: Realformer and others"),
    Entry("4.5.3", "Prior for several tasks: CAMTL"),
    Entry("4.5.4", "Average and hard-coded Gaussian attention", "06_taxonomy", ("families.prior_attention",), ("families/test_prior.py",), "Side by side"),
    Entry("4.5.4", "Synthesizer"),
    Entry("4.6.1", "Talking heads", "06_taxonomy", ("families.talking_heads_attention",), ("families/test_heads.py",)),
    Entry("4.6.1", "Disagreement, guided and collaborative heads"),
    Entry("4.6.2", "Restricted spans", None, ("patterns.PerHead",), ("patterns/test_composition.py",)),
    Entry("4.6.3", "Refined aggregation: routing"),
    Entry("4.6.4", "Multi-query and grouped-query", "06_taxonomy", ("families.grouped_attention", "families.GroupedQueryAttention"), ("families/test_heads.py",), "Side by side", exercises=("taxonomy/grouped",)),
)  # fmt: skip


def coverage_table(section: str = "", *, up: str = "../") -> str:
    """The entries of a section and all below it as a Markdown table; holes are shown as such.

    Args:
        section: such as "4.1"; all sections if empty.
        up: how a page gets from its own folder to that of the chapters.

    Example:
        >>> print(coverage_table("3").splitlines()[2].split(" | ")[:2])
        ['| 3', 'Taxonomy']
    """
    rows = [
        "| section | node | chapter | code | tests | drawn under | exercises |",
        "|---|---|---|---|---|---|---|",
    ]
    for entry in ENTRIES:
        within = [f"{one}.".startswith(f"{section}.") for one in entry.section.split(", ")]
        if any(within) or not section:
            chapter, asked = HOLE, [name.split("/") for name in entry.exercises]
            if entry.chapter:
                chapter = f"[{int(entry.chapter[:2])}]({up}{entry.chapter}.ipynb)"
            cells = (
                entry.section,
                escape(entry.what),
                chapter,
                ", ".join(f"`{name}`" for name in entry.code) or HOLE,
                ", ".join(f"`{name}`" for name in entry.tests) or HOLE,
                entry.figure or HOLE,
                ", ".join(f"[{name}]({up}exercises/{page}.ipynb)" for page, name in asked) or HOLE,
            )
            rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)
