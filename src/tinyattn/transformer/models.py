"""Encoder, decoder, and both together, built from one frozen config."""

from __future__ import annotations

from dataclasses import replace

import torch
from jaxtyping import Bool, Float, Int64, Shaped
from torch import Tensor, nn

from tinyattn.checks import whole_numbers
from tinyattn.content.router import Router, RulePerHead, own_copy
from tinyattn.patterns import Causal, Pattern
from tinyattn.transformer.blocks import DecoderLayer, EncoderLayer, LayerCache, last_norm
from tinyattn.transformer.cache import KVCache, unchanged_if_refused
from tinyattn.transformer.config import TransformerConfig
from tinyattn.transformer.embedding import Embedding
from tinyattn.transformer.generate import evaluating, generate
from tinyattn.transformer.positions import Positions


class Encoder(nn.Module):
    """A stack of encoder layers: every token's vector, informed by all the others.

    Args:
        config: sizes and choices.
        pattern: which tokens may read which: one rule, a tuple with one for each head, or a list
            with one of these for each layer; all of them if not given. A router stands for a
            rule; given once, it is copied, so that every layer learns its own.

    Source:
        Vaswani et al. 2017 (arXiv:1706.03762); Lin et al. 2022, section 2.1. A pre-norm stack
        ends with a LayerNorm, a post-norm one does not (`torch.nn.Transformer` adds one there).

    Example:
        >>> encoder = Encoder(TransformerConfig(vocab_size=10, d_model=8, n_heads=2, d_ff=16))
        >>> encoder(torch.tensor([[3, 1, 4, 1, 5]])).shape
        torch.Size([1, 5, 8])
    """

    def __init__(
        self,
        config: TransformerConfig,
        *,
        pattern: RulePerHead | list[RulePerHead | None] | None = None,
    ) -> None:
        super().__init__()
        self.config = config
        at_embedding, in_layers = _positions(config, bidirectional=True)
        self.embedding = Embedding(config.vocab_size, config, at_embedding)
        self.layers = nn.ModuleList(
            EncoderLayer(config, pattern=rule, positions=positions)
            for rule, positions in zip(_in_layers(pattern, config), in_layers, strict=True)
        )
        self.norm = last_norm(config)

    def forward(
        self,
        tokens: Shaped[Tensor, "b n *d_model"],
        *,
        key_padding: Bool[Tensor, "b n"] | None = None,
    ) -> Float[Tensor, "b n width"]:
        """Token vectors after the last layer.

        Args:
            tokens: (b, n) integers below vocab_size, or (b, n, d_model) vectors.
            key_padding: True where a token is real; nobody reads the others.
        """
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x, key_padding=key_padding)
        return self.norm(x)


class DecoderCache:
    """Keys and values of every layer for the tokens that a decoder has seen."""

    def __init__(self, n_layers: int) -> None:
        self.layers = [LayerCache() for _ in range(n_layers)]

    def __len__(self) -> int:
        return len(self.layers[0].own)

    def parts(self) -> list[KVCache]:
        """The caches of all attentions."""
        return [part for layer in self.layers for part in (layer.own, layer.memory)]


class Decoder(nn.Module):
    """A stack of causal layers that scores the next token at every position.

    Args:
        config: sizes and choices.
        cross_attention: whether the layers read an encoder's output; False is decoder-only.
        pattern: which tokens may read which, as for `Encoder`; each rule is joined with Causal().

    Source:
        Vaswani et al. 2017 (arXiv:1706.03762); Lin et al. 2022, section 2.2. Decoder-only drops
        the cross-attention, as in GPT.

    Example:
        >>> decoder = Decoder(TransformerConfig(vocab_size=10, d_model=8, n_heads=2, d_ff=16))
        >>> cache = decoder.new_cache()
        >>> decoder(torch.tensor([[3, 1, 4]]), cache=cache).shape, len(cache)
        (torch.Size([1, 3, 10]), 3)
    """

    def __init__(
        self,
        config: TransformerConfig,
        cross_attention: bool = False,
        *,
        pattern: RulePerHead | list[RulePerHead | None] | None = None,
    ) -> None:
        super().__init__()
        self.config = config
        at_embedding, in_layers = _positions(config, bidirectional=False)
        self.embedding = Embedding(config.vocab_size, config, at_embedding)
        self.layers = nn.ModuleList(
            DecoderLayer(
                config,
                pattern=_causal(rule),
                positions=positions,
                cross_attention=cross_attention,
            )
            for rule, positions in zip(_in_layers(pattern, config), in_layers, strict=True)
        )
        self.norm = last_norm(config)
        self.to_logits = nn.Linear(config.d_model, config.vocab_size, bias=False)
        if config.tie_embeddings:
            self.to_logits.weight = self.embedding.table.weight

    def new_cache(self) -> DecoderCache:
        """An empty cache, to be given to `forward` for each piece of one batch of sequences."""
        return DecoderCache(len(self.layers))

    def forward(
        self,
        tokens: Shaped[Tensor, "b n *d_model"],
        memory: Float[Tensor, "b n_memory width"] | None = None,
        *,
        memory_padding: Bool[Tensor, "b n_memory"] | None = None,
        cache: DecoderCache | None = None,
    ) -> Float[Tensor, "b n vocab_size"]:
        """Logits of the token that follows each of the given ones.

        Args:
            tokens: (b, n) integers below vocab_size, or (b, n, d_model) vectors. With a cache,
                only those that it has not seen yet.
            memory: the encoder's output, if the decoder has cross-attention.
            memory_padding: True where a token of the memory is real.
            cache: what the model remembers of earlier tokens; it grows by the n new ones.

        Raises:
            ValueError: if memory is missing or not wanted, or cache is that of a model of another
                shape. A refused call leaves the cache as it was, in every layer.
            TypeError: if cache does not come from `new_cache`.
        """
        if cache is not None:
            self._check_cache(cache)
        x = self.embedding(tokens, start=0 if cache is None else len(cache))
        caches = [None] * len(self.layers) if cache is None else cache.layers
        with unchanged_if_refused(*([] if cache is None else cache.parts())):
            for layer, kept in zip(self.layers, caches, strict=True):
                x = layer(x, memory, memory_padding=memory_padding, cache=kept)
            return self.to_logits(self.norm(x))

    def _check_cache(self, cache: DecoderCache) -> None:
        if not isinstance(cache, DecoderCache):
            raise TypeError(f"cache must come from new_cache(), got {type(cache).__name__}")
        if len(cache.layers) != len(self.layers):
            raise ValueError(
                f"cache must hold the decoder's {len(self.layers)} layers, "
                f"got {len(cache.layers)}; take it from this decoder's new_cache()"
            )


class Seq2Seq(nn.Module):
    """Encoder and decoder: one sequence in, another out.

    Example:
        >>> config = TransformerConfig(vocab_size=10, target_vocab_size=7, d_model=8, n_heads=2)
        >>> model = Seq2Seq(config)
        >>> model(torch.tensor([[3, 1, 4, 1]]), torch.tensor([[0, 5]])).shape
        torch.Size([1, 2, 7])
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        self.encoder = Encoder(config)
        self.decoder = Decoder(
            replace(
                config,
                vocab_size=config.target_vocab_size or config.vocab_size,
                n_layers=config.n_decoder_layers or config.n_layers,
            ),
            cross_attention=True,
        )

    def forward(
        self,
        source: Shaped[Tensor, "b n_source *d_model"],
        target: Int64[Tensor, "b n_target"],
        *,
        source_padding: Bool[Tensor, "b n_source"] | None = None,
    ) -> Float[Tensor, "b n_target vocab_size"]:
        """Logits of the token that follows each target token, given the whole source."""
        memory = self.encoder(source, key_padding=source_padding)
        return self.decoder(target, memory, memory_padding=source_padding)

    def translate(
        self,
        source: Shaped[Tensor, "b n_source *d_model"],
        *,
        start_token: int,
        stop_token: int,
        n_new: int,
        source_padding: Bool[Tensor, "b n_source"] | None = None,
    ) -> Int64[Tensor, "b n_new"]:
        """The most likely target, token by token, at most n_new of them.

        What follows a stop token is filled up with stop tokens; the start token is left out.
        """
        (start_token,) = whole_numbers(start_token=start_token)
        with evaluating(self):
            memory = self.encoder(source, key_padding=source_padding)
        start = torch.full((len(source), 1), start_token, device=source.device)
        out = generate(
            self.decoder,
            start,
            n_new,
            stop_token=stop_token,
            memory=memory,
            memory_padding=source_padding,
        )
        return out[:, 1:]


def _positions(
    config: TransformerConfig, *, bidirectional: bool
) -> tuple[Positions, list[Positions]]:
    """The scheme for the embedding and for each layer: one instance, or one a layer."""
    scheme = config.positions
    if scheme.shared:
        one = scheme.from_config(config, bidirectional=bidirectional)
        return one, [one] * config.n_layers
    layers = range(config.n_layers)
    return Positions(), [scheme.from_config(config, bidirectional=bidirectional) for _ in layers]


def _in_layers(
    pattern: RulePerHead | list[RulePerHead | None] | None, config: TransformerConfig
) -> list[RulePerHead | None]:
    if not isinstance(pattern, list):
        return [own_copy(pattern) for _ in range(config.n_layers)]
    if len(pattern) != config.n_layers:
        raise ValueError(
            f"a list of patterns has one for each of the {config.n_layers} layers, "
            f"got {len(pattern)}"
        )
    return list(pattern)


def _causal(pattern: RulePerHead | None) -> RulePerHead:
    if pattern is None:
        return Causal()
    if isinstance(pattern, tuple):
        return tuple(
            _causal(rule) if isinstance(rule, (Pattern, Router)) else rule for rule in pattern
        )
    if isinstance(pattern, Router) and not pattern.causal:
        raise ValueError(
            f"a decoder needs a causal router, such as with causal=True, got {pattern}"
        )
    return pattern & Causal() if isinstance(pattern, Pattern) else pattern
