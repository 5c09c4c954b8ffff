"""BP-Transformer: tokens and the spans of a binary tree over them, updated together."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn

from tinyattn.checks import whole_numbers
from tinyattn.padding import check_padding
from tinyattn.patterns import bp_transformer
from tinyattn.patterns.tree import BinaryTree
from tinyattn.transformer.blocks import EncoderLayer, last_norm
from tinyattn.transformer.config import TransformerConfig
from tinyattn.transformer.embedding import Embedding, check_token_ids
from tinyattn.transformer.positions import Positions


class EdgeTypes(Positions):
    """A learned vector for what each key is to its query: on which side, how far, how large.

        score(i, j) = q_i · (k_j + r[type(i, j)]) / √d_head

    A tree has no absolute positions; these vectors are all that tells one neighbour from another.
    The (2 k + 1) * (clip + 1) of them are shared by the heads of a layer. They cost a table of
    types, (2 n - 1)² whole numbers, so layers that use them compute densely.

    Args:
        tree: the pattern of the layer.
        d_head: width of a head.
        clip: level from which on all spans have the types of one size.

    Raises:
        TypeError: if the pattern is no tree.
        ValueError: if d_head is below 1 or clip negative.

    Source:
        Ye et al. 2019, section 3.3 (arXiv:1911.04070). Within one span all of its edges have one
        type, which adds the same to each score and changes nothing there.
    """

    shared = False
    in_scores = True

    def __init__(self, tree: BinaryTree, d_head: int, clip: int = 5) -> None:
        super().__init__()
        if not isinstance(tree, BinaryTree):
            raise TypeError(f"edge types need bp_transformer(n, k), got {tree!r}")
        d_head, clip = whole_numbers(d_head=d_head, clip=clip)
        if d_head < 1 or clip < 0:
            raise ValueError(
                f"d_head must be 1 or more and clip 0 or more, got d_head={d_head}, clip={clip}"
            )
        at = torch.arange(tree.n_nodes)
        types = tree.edge_types(at[:, None], at, clip).clamp(min=0)  # the mask hides the others
        self.register_buffer("types", types, persistent=False)
        n_types = (2 * tree.k + 1) * (clip + 1)
        self.r = nn.Parameter(torch.empty(n_types, d_head).normal_(std=d_head**-0.5))

    @classmethod
    def from_config(cls, config: TransformerConfig, *, bidirectional: bool = True) -> EdgeTypes:
        raise TypeError(
            "EdgeTypes needs the tree of the layer, which a config does not know: "
            "give EdgeTypes(tree, d_head) to MultiHeadAttention, or take a BPTransformer"
        )

    def score_bias(
        self,
        q: Float[Tensor, "b h n_q d_head"],
        i: Int64[Tensor, "n_q"],
        j: Int64[Tensor, "n_k"],
        scale: float,
    ) -> Float[Tensor, "b h n_q n_k"]:
        if q.shape[-1] != self.r.shape[-1]:
            raise ValueError(
                f"edge types of d_head={self.r.shape[-1]} must meet heads of that width, "
                f"got {q.shape[-1]}"
            )
        last = max([int(at.max()) for at in (i, j) if len(at)], default=0)
        if last >= len(self.types):
            raise ValueError(f"the tree has {len(self.types)} nodes, got position {last}")
        by_type = (q * scale) @ self.r.T  # (b, h, n_q, n_types)
        types = self.types[i[:, None], j]
        return by_type.gather(-1, types.expand(*q.shape[:2], -1, -1))


class BPTransformer(nn.Module):
    """Layers of attention on a tree over the tokens, for classifying and for language models.

    Tokens start as their embeddings and spans as zeros. Each layer updates all nodes at once;
    after two, every token has heard of every other, or of all to its left if causal. The root
    sums up the sequence.

    Args:
        config: sizes and choices; its positions are not used, `EdgeTypes` take their place. The
            paper normalises after each sum: norm_first=False.
        n: the most tokens, rounded up to a power of two; shorter sequences are padded.
        k: nodes that a token takes on each side at each step from leaf to root.
        causal: whether tokens read to their left only.
        clip: level from which on edges have the types of one size.

    Raises:
        ValueError: if n or k is below 1; forward, if there are more tokens than n rounded up.

    Source:
        Ye et al. 2019 (arXiv:1911.04070).

    Example:
        >>> config = TransformerConfig(vocab_size=9, d_model=8, n_heads=2, d_ff=16)
        >>> tokens, root = BPTransformer(config, n=6, k=1)(torch.tensor([[3, 1, 4, 1, 5]]))
        >>> tokens.shape, root.shape
        (torch.Size([1, 5, 8]), torch.Size([1, 8]))
    """

    def __init__(
        self, config: TransformerConfig, n: int, k: int, *, causal: bool = False, clip: int = 5
    ) -> None:
        super().__init__()
        self.tree = bp_transformer(n, k, causal=causal)
        self.embedding = Embedding(config.vocab_size, config, Positions())
        self.layers = nn.ModuleList(
            EncoderLayer(
                config, pattern=self.tree, positions=EdgeTypes(self.tree, config.d_head, clip)
            )
            for _ in range(config.n_layers)
        )
        self.norm = last_norm(config)

    def forward(
        self, tokens: Int64[Tensor, "b n"], *, key_padding: Bool[Tensor, "b n"] | None = None
    ) -> tuple[Float[Tensor, "b n d_model"], Float[Tensor, "b d_model"]]:
        """Vectors of the tokens and of the root.

        Args:
            tokens: numbers below vocab_size.
            key_padding: True where a token is real.

        Raises:
            ValueError: if shapes do not fit, or there are more tokens than leaves.
            TypeError: if tokens are no integers, or key_padding is not bool.
        """
        check_token_ids(tokens)
        b, n = tokens.shape
        if n > self.tree.n:
            raise ValueError(f"this tree has room for {self.tree.n} tokens, got {n}")
        if key_padding is not None:
            check_padding(key_padding, tokens.shape, tokens.device)
        leaves = self.embedding(tokens)
        x = leaves.new_zeros(b, self.tree.n_nodes, leaves.shape[-1])
        x = torch.cat([leaves, x[:, n:]], dim=1)
        real = torch.zeros(b, self.tree.n, dtype=torch.bool, device=tokens.device)
        real[:, :n] = True if key_padding is None else key_padding
        real = torch.cat(
            [real.unflatten(1, (-1, 1 << level)).any(dim=2) for level in self._levels()], 1
        )
        for layer in self.layers:
            x = layer(x, key_padding=real)
        x = self.norm(x)
        return x[:, :n], x[:, -1]

    def _levels(self) -> range:
        return range(self.tree.depth + 1)
