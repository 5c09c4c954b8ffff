"""Every symbol of the book: what it means, its shape, the survey's letter, its name in the code."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Symbol:
    """One symbol, and where the code has it.

    Args:
        part: the group of symbols in which it is listed.
        sign: in formulas, as LaTeX.
        meaning: in words.
        shape: of a tensor, or the range of a number.
        survey: the survey's own letter as LaTeX; empty where it has none.
        code: the name in the code; empty where the code needs none.
        where: names below `tinyattn` that have a parameter or an attribute of that name.
    """

    part: str
    sign: str
    meaning: str
    shape: str = ""
    survey: str = ""
    code: str = ""
    where: tuple[str, ...] = ()


SIZES, TENSORS, PATTERNS, GRIDS, CONTENT, FAMILIES, COSTS = PARTS = (
    "Sizes",
    "Tensors",
    "Patterns",
    "Trees and grids",
    "Patterns from content",
    "Other families",
    "Counts",
)

NOTATION = (
    Symbol(SIZES, "n", "tokens in a sequence, where queries and keys are as many", "≥ 0", "T", "n", ("patterns.Random", "patterns.Pattern.mask")),
    Symbol(SIZES, "n_q", "queries, where keys may be more", "≤ n_k", "N"),
    Symbol(SIZES, "n_k", "keys; the last query stands at the last key", "≥ n_q", "M", "n_k", ("groups.schedule", "patterns.Pattern.mask")),
    Symbol(SIZES, r"d_\text{model}", "width of a token's vector", "≥ 1", "D_m, D", "d_model", ("MultiHeadAttention", "transformer.TransformerConfig")),
    Symbol(SIZES, r"d_\text{head}", "width of a query and a key in one head", "≥ 1", "D_k", "d_head", ("MultiHeadAttention", "transformer.RoPE")),
    Symbol(SIZES, "d_v", "width of a value in one head; d_head where nothing else is said", "≥ 1", "D_v"),
    Symbol(SIZES, r"d_\text{ff}", "hidden width of the feed-forward layer", "≥ 1", "D_f", "d_ff", ("transformer.FeedForward",)),
    Symbol(SIZES, "h", "heads of a layer", "≥ 1", "H", "n_heads", ("MultiHeadAttention",)),
    Symbol(SIZES, r"h_\text{kv}", "heads that have keys and values of their own", "divides h", "", "n_kv_heads", ("families.GroupedQueryAttention",)),
    Symbol(SIZES, "L", "layers in a stack", "≥ 1", "L", "n_layers", ("transformer.TransformerConfig",)),
    Symbol(SIZES, r"L_\text{dec}", "layers in the decoder, where they are not as many", "≥ 1", "", "n_decoder_layers", ("transformer.TransformerConfig",)),
    Symbol(SIZES, "b", "sequences in a batch: the first axis of every tensor", "≥ 0"),
    Symbol(SIZES, r"n_\text{new}", "tokens to generate", "≥ 0", "", "n_new", ("transformer.generate",)),
    Symbol(SIZES, r"n_\text{chunks}", "pieces in which the feed-forward layer works through a sequence", "≥ 1", "", "n_chunks", ("transformer.FeedForward",)),
    Symbol(TENSORS, "x", "tokens' vectors", "(b, n, d_model)", "X, H", "x", ("transformer.FeedForward.forward",)),
    Symbol(TENSORS, "q", "queries, in heads", "(b, h, n_q, d_head)", "Q", "q", ("attention",)),
    Symbol(TENSORS, "k", "keys, in heads", "(b, h, n_k, d_head)", "K", "k", ("attention",)),
    Symbol(TENSORS, "v", "values, in heads", "(b, h, n_k, d_v)", "V", "v", ("attention",)),
    Symbol(TENSORS, r"q k^\top / \sqrt{d_\text{head}}", "scores: before softmax", "(b, h, n_q, n_k)", "", "scores", ("show.MaskStudio",)),
    Symbol(TENSORS, "A", "weights: scores after softmax; rows sum to 1", "(b, h, n_q, n_k)", "A", "weights", ("dense.masked_softmax",)),
    Symbol(TENSORS, "M", "mask: True means may read", "(n_q, n_k)", "", "mask", ("attention",)),
    Symbol(TENSORS, "B", "what is added to scores before softmax", "(b, h, n_q, n_k)", "", "bias", ("attention",)),
    Symbol(TENSORS, "W^Q, W^K, W^V", "maps from tokens to queries, keys, values of all heads", "(d_model, h d_head)", "W^Q, W^K, W^V", "query", ("MultiHeadAttention",)),
    Symbol(TENSORS, "W^O", "map from the heads side by side back to tokens", "(h d_v, d_model)", "W^O", "out", ("MultiHeadAttention",)),
    Symbol(TENSORS, "o", "output of attention", "(b, h, n_q, d_v)"),
    Symbol(PATTERNS, "i", "position of a query", "0 … n - 1", "i", "i", ("patterns.Pattern.allowed",)),
    Symbol(PATTERNS, "j", "position of a key", "0 … n_k - 1", "j", "j", ("patterns.Pattern.allowed",)),
    Symbol(PATTERNS, "w", "keys read on each side of the query: 2 w + 1 with its own", "≥ 0", "", "w", ("patterns.Window", "patterns.Dilated")),
    Symbol(PATTERNS, "d", "step between the keys read", "≥ 1", "", "dilation", ("patterns.Dilated",)),
    Symbol(PATTERNS, "s", "period of a strided rule", "≥ 1", "", "stride", ("patterns.Strided",)),
    Symbol(PATTERNS, "c", "positions at the end of each period that later tokens read", "1 … s", "", "c", ("patterns.sparse_fixed",)),
    Symbol(PATTERNS, "g", "global tokens", "≥ 0", "", "g", ("patterns.Global", "patterns.longformer")),
    Symbol(PATTERNS, "g", "global tokens that are added to the sequence, or global blocks", "≥ 0", "", "n_global", ("patterns.etc", "patterns.bigbird")),
    Symbol(PATTERNS, "r", "random keys, or blocks, for each row", "≥ 0", "", "r", ("patterns.Random",)),
    Symbol(PATTERNS, "s_b", "tokens in a block", "≥ 1", "", "block_size", ("patterns.BlockLocal", "groups.schedule")),
    Symbol(PATTERNS, "n_b", "blocks in a sequence", "n / s_b", "", "n_blocks", ("content.SinkhornRouter",)),
    Symbol(PATTERNS, r"\rho", "density: allowed pairs among all", "0 … 1"),
    Symbol(GRIDS, "k", "nodes of each level of the tree that a leaf reads on each side", "≥ 1", "k", "k", ("patterns.bp_transformer",)),
    Symbol(GRIDS, r"\text{height}", "rows of a picture", "≥ 1", "", "height", ("patterns.image_2d",)),
    Symbol(GRIDS, r"\text{width}", "columns of a picture", "≥ 1", "", "width", ("patterns.image_2d", "patterns.axial_rows")),
    Symbol(GRIDS, r"L_\text{in}", "layers along the rows behind those that see the rows above", "≥ 1", "", "n_inner", ("transformer.AxialTransformer",)),
    Symbol(CONTENT, r"n_\text{buckets}", "buckets of a hash", "even", "b", "n_buckets", ("content.lsh_buckets",)),
    Symbol(CONTENT, r"n_\text{hashes}", "rounds of hashing", "≥ 1", "", "n_hashes", ("content.lsh_attention",)),
    Symbol(CONTENT, "R", "directions of which the nearest is a vector's bucket", "(h, d_head, n_buckets / 2)", "R"),
    Symbol(CONTENT, r"\mu", "centroids", "(h, n_clusters, d_head)", r"\mu", "centroids", ("content.routing_attention",)),
    Symbol(CONTENT, r"n_\text{clusters}", "centroids of a head", "≥ 1", "k", "n_clusters", ("content.RoutingRouter",)),
    Symbol(CONTENT, r"\lambda", "how much of a centroid stays at each step", "0 … 1", r"\lambda", "decay", ("content.RoutingRouter",)),
    Symbol(CONTENT, "R", "in chapter 12: scores by which blocks are sorted", "(b, h, n_blocks, n_blocks)", "", "sort_scores", ("content.sinkhorn_attention",)),
    Symbol(CONTENT, "S", "what Sinkhorn makes of them: nearly a permutation", "(b, h, n_blocks, n_blocks)"),
    Symbol(CONTENT, r"\tau", "temperature: the smaller, the closer to a permutation", "> 0", "", "temperature", ("content.sinkhorn_attention",)),
    Symbol(CONTENT, r"n_\text{iters}", "times that rows and columns are divided by their sums", "≥ 1", "", "n_iters", ("content.sinkhorn_attention",)),
    Symbol(CONTENT, r"n_\text{kept}", "blocks that every query reads after sorting", "≥ 1", "", "n_kept", ("content.sortcut_attention",)),
    Symbol(CONTENT, "e", "edges that a policy draws for each token", "≥ 0", "", "edges_per_token", ("content.SACRouter",)),
    Symbol(CONTENT, r"d_\text{hidden}", "width of the network that draws edges or sorts", "≥ 1", "", "d_hidden", ("content.EdgePredictor",)),
    Symbol(CONTENT, r"d_\text{node}", "width of what the policy knows of a token", "≥ 1", "", "d_node", ("content.EdgePredictor",)),
    Symbol(CONTENT, r"d_\text{sum}", "width of what stands for a block when blocks are sorted", "≥ 1", "", "d_summary", ("content.SortingNetwork",)),
    Symbol(FAMILIES, r"\phi", "feature map in place of the exponential", "d_head → features", r"\phi", "elu_features", ("families.elu_features",)),
    Symbol(FAMILIES, r"n_\text{mem}", "keys and values that stand for all", "≥ 1", "", "n_memory", ("families.Linformer",)),
    Symbol(FAMILIES, "m", "landmarks of the Nyström form", "≥ 1", "", "n_landmarks", ("families.nystrom_attention",)),
    Symbol(COSTS, "|E|", "allowed pairs of a query and a key", "0 … n_q n_k", "", "n_pairs", ("analysis.attention_cost",)),
    Symbol(COSTS, r"d_\text{in}", "width that a linear map takes", "≥ 1", "", "d_in", ("analysis.linear_cost",)),
    Symbol(COSTS, r"d_\text{out}", "width that it gives", "≥ 1", "", "d_out", ("analysis.linear_cost",)),
    Symbol(COSTS, "t", "steps of a random walk", "≥ 0", "", "n_steps", ("analysis.mixing_time",)),
)  # fmt: skip


def notation_table(part: str) -> str:
    """The symbols of one part as a Markdown table.

    Args:
        part: one of `PARTS`.

    Raises:
        ValueError: if there is no such part.

    Example:
        >>> print(notation_table("Counts").splitlines()[0])
        | symbol | meaning | shape or range | survey | code |
    """
    if part not in PARTS:
        raise ValueError(f"part must be one of {', '.join(PARTS)}, got {part!r}")
    rows = ["| symbol | meaning | shape or range | survey | code |", "|---|---|---|---|---|"]
    for symbol in NOTATION:
        if symbol.part == part:
            survey = f"${symbol.survey}$" if symbol.survey else "–"
            code = f"`{symbol.code}`" if symbol.code else "–"
            sign = f"${symbol.sign}$".replace("|", r"\|")
            rows.append(f"| {sign} | {symbol.meaning} | {symbol.shape} | {survey} | {code} |")
    return "\n".join(rows)
