"""Residual connections, layer normalisation, and the encoder and decoder layers made of them."""

from __future__ import annotations

from collections.abc import Callable

from jaxtyping import Bool, Float
from torch import Tensor, nn

from tinyattn.checks import check_tokens
from tinyattn.content.router import RulePerHead
from tinyattn.padding import check_padding, finite_padding
from tinyattn.transformer.attention import MultiHeadAttention
from tinyattn.transformer.cache import KVCache, unchanged_if_refused
from tinyattn.transformer.config import TransformerConfig
from tinyattn.transformer.feedforward import FeedForward
from tinyattn.transformer.positions import Positions


class Residual(nn.Module):
    """Adds what a sub-layer computes to its input, with LayerNorm after the sum or before.

        post-norm: LayerNorm(x + sublayer(x))        pre-norm: x + sublayer(LayerNorm(x))

    Pre-norm leaves a path from top to bottom that nothing rescales, so the sum grows with depth
    and the stack needs one last LayerNorm; post-norm normalises the sum itself.

    Source:
        Vaswani et al. 2017, section 3.1, and Lin et al. 2022, equations 5 and 6 (post); Xiong et
        al. 2020 (arXiv:2002.04745) compare both. Dropout stands where Vaswani et al. 2017,
        section 5.4, puts it: on the sub-layer's output.
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.norm_first = config.norm_first
        self.norm = nn.LayerNorm(config.d_model, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        if self.norm_first:
            return x + self.dropout(sublayer(self.norm(x)))
        return self.norm(x + self.dropout(sublayer(x)))


def last_norm(config: TransformerConfig) -> nn.Module:
    """What stands after a stack: a LayerNorm where each layer normalises first, else nothing."""
    if config.norm_first:
        return nn.LayerNorm(config.d_model, eps=config.layer_norm_eps)
    return nn.Identity()


class EncoderLayer(nn.Module):
    """Self-attention, then a position-wise feed-forward layer, each inside a `Residual`.

    With d_ff = 4 * d_model it has 12 * d_model² + 13 * d_model parameters.

    Args:
        config: sizes, and where the normalisation stands.
        pattern: which tokens may read which, one rule or one for each head; all if not given.
        positions: scheme inside the attention.
    """

    def __init__(
        self,
        config: TransformerConfig,
        *,
        pattern: RulePerHead | None = None,
        positions: Positions | None = None,
    ) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(
            config.d_model, config.n_heads, pattern=pattern, positions=positions
        )
        self.feed_forward = _feed_forward(config)
        self.around_attention = Residual(config)
        self.around_feed_forward = Residual(config)

    def forward(
        self, x: Float[Tensor, "b n d_model"], *, key_padding: Bool[Tensor, "b n"] | None = None
    ) -> Float[Tensor, "b n d_model"]:
        """NaN, or numbers too large, in padded tokens of x count as zero.

        Raises as `MultiHeadAttention` does.
        """
        check_tokens(x, self.attention.query.in_features)
        if key_padding is not None:
            check_padding(key_padding, x.shape[:2], x.device)
            # here as well as in the attention, since the sum goes around it
            x = finite_padding(x, key_padding)
        x = self.around_attention(x, lambda x: self.attention(x, key_padding=key_padding))
        return self.around_feed_forward(x, self.feed_forward)


class LayerCache:
    """What one decoder layer remembers: its own keys, and those of the encoder's output."""

    def __init__(self) -> None:
        self.own = KVCache()
        self.memory = KVCache()


class DecoderLayer(nn.Module):
    """Masked self-attention, attention to the encoder's output, feed-forward.

    With d_ff = 4 * d_model it has 16 * d_model² + 19 * d_model parameters. Without
    cross-attention it is a decoder-only layer, which has as many as an encoder layer.

    Args:
        config: sizes, and where the normalisation stands.
        pattern: which tokens may read which; a decoder that generates needs a causal one.
        positions: scheme inside the self-attention.
        cross_attention: whether the layer reads an encoder's output.
    """

    def __init__(
        self,
        config: TransformerConfig,
        *,
        pattern: RulePerHead | None = None,
        positions: Positions | None = None,
        cross_attention: bool = True,
    ) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(
            config.d_model, config.n_heads, pattern=pattern, positions=positions
        )
        self.around_attention = Residual(config)
        self.cross_attention = None
        if cross_attention:
            self.cross_attention = MultiHeadAttention(config.d_model, config.n_heads)
            self.around_cross_attention = Residual(config)
        self.feed_forward = _feed_forward(config)
        self.around_feed_forward = Residual(config)

    def forward(
        self,
        x: Float[Tensor, "b n d_model"],
        memory: Float[Tensor, "b n_memory d_model"] | None = None,
        *,
        memory_padding: Bool[Tensor, "b n_memory"] | None = None,
        cache: LayerCache | None = None,
    ) -> Float[Tensor, "b n d_model"]:
        """Raises ValueError if the layer reads a memory and none came, or the other way round,
        or if x and memory are batches of different sizes, or x of another width. Then the cache
        is left as it was."""
        check_tokens(x, self.attention.query.in_features)
        if (memory is None) != (self.cross_attention is None):
            raise ValueError(
                "this layer has cross-attention and needs memory, the encoder's output"
                if memory is None
                else "this layer has no cross-attention and takes no memory"
            )
        if memory is not None and len(memory) != len(x):
            raise ValueError(
                f"memory must hold a sequence for each of the {len(x)} target sequences, "
                f"got {len(memory)}"
            )
        if memory_padding is not None:
            if memory is None:
                raise ValueError("memory_padding needs the memory that it describes, got none")
            check_padding(memory_padding, memory.shape[:2], x.device, name="memory_padding")
        own, kept = (None, None) if cache is None else (cache.own, cache.memory)
        with unchanged_if_refused(own, kept):
            x = self.around_attention(x, lambda x: self.attention(x, cache=own))
            if self.cross_attention is not None:
                read = self.cross_attention
                x = self.around_cross_attention(
                    x, lambda x: read(x, memory, key_padding=memory_padding, cache=kept)
                )
            return self.around_feed_forward(x, self.feed_forward)


def _feed_forward(config: TransformerConfig) -> FeedForward:
    return FeedForward(config.d_model, config.d_ff, config.n_chunks, activation=config.activation)
