"""ETC's labels: which piece of the attention a pair belongs to, and how far apart it stands."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from tinyattn.checks import whole_numbers
from tinyattn.patterns.base import listed
from tinyattn.transformer.positions import Positions

if TYPE_CHECKING:
    from tinyattn.transformer.config import TransformerConfig


class EtcPositions(Positions):
    """A learned vector for each label of a pair, met by the query like Shaw's.

        score(i, j) = q_i · (k_j + a_key[label(i, j)]) / √d_head

    Two global tokens, and two tokens of the text, are labelled by their clipped distance; a
    global token and a token of the text by which of them asks, and by whether the token belongs
    to the global token's sentence. 2 (2 * max_distance + 1) + 4 labels.

    Args:
        d_head: width of a head.
        n_global: global tokens, which come first.
        max_distance: distance at which labels are clipped.
        sentences: tokens of the text in each global token's sentence; without it every token
            belongs to every global token.

    Raises:
        ValueError: if a size is out of range, or `sentences` has not one length for each global
            token.

    Source:
        Ainslie et al. 2020, sections 2.1 to 2.4 (arXiv:2004.08483). Their vocabulary of labels is
        learned with any assignment to pairs; this is the one that they describe for text.
    """

    shared = False
    in_scores = True

    def __init__(
        self,
        d_head: int,
        n_global: int,
        max_distance: int,
        sentences: tuple[int, ...] | None = None,
    ) -> None:
        super().__init__()
        d_head, n_global, max_distance = whole_numbers(
            d_head=d_head, n_global=n_global, max_distance=max_distance
        )
        if d_head < 1 or n_global < 0 or max_distance < 0:
            raise ValueError(
                "d_head must be 1 or more, n_global and max_distance 0 or more, "
                f"got d_head={d_head}, n_global={n_global}, max_distance={max_distance}"
            )
        if sentences is not None and len(sentences) != n_global:
            raise ValueError(
                f"give one sentence length for each of the {n_global} global tokens, "
                f"got {len(sentences)}"
            )
        if sentences is not None:
            sentences = listed("sentences", sentences, "lengths")
            if any(length < 0 for length in sentences):
                raise ValueError(f"sentences must have 0 tokens or more, got {sentences}")
        self.n_global = n_global
        self.max_distance = max_distance
        self.sentences = sentences
        n_labels = 2 * (2 * max_distance + 1) + 4
        self.a_key = nn.Parameter(torch.empty(n_labels, d_head).normal_(std=d_head**-0.5))

    @classmethod
    def from_config(cls, config: TransformerConfig, *, bidirectional: bool = True) -> EtcPositions:
        raise TypeError(
            "EtcPositions needs to know the global tokens, which a config does not: "
            "give EtcPositions(d_head, n_global, max_distance) to MultiHeadAttention"
        )

    def label(self, i: Int64[Tensor, "n_q"], j: Int64[Tensor, "n_k"]) -> Int64[Tensor, "n_q n_k"]:
        """Label of each pair: text to text, then global to global, then the four mixed ones."""
        i, j = i[:, None], j[None, :]
        by_distance = (j - i).clamp(-self.max_distance, self.max_distance) + self.max_distance
        n_distances = 2 * self.max_distance + 1
        asks, read = i < self.n_global, j < self.n_global
        summary, token = torch.minimum(i, j), torch.maximum(i, j)
        mixed = 2 * n_distances + 2 * read.long() + self._own(summary, token).long()
        one_kind = by_distance + n_distances * (asks & read).long()
        return torch.where(asks == read, one_kind, mixed)

    def _own(self, summary: Tensor, token: Tensor) -> Tensor:
        """Whether the token belongs to the sentence of the global token."""
        if self.sentences is None:
            return torch.ones_like(token, dtype=torch.bool)
        lengths = torch.tensor(self.sentences, device=token.device)
        stops = self.n_global + lengths.cumsum(0)
        return torch.bucketize(token, stops, right=True) == summary

    def score_bias(
        self,
        q: Float[Tensor, "b h n_q d_head"],
        i: Int64[Tensor, "n_q"],
        j: Int64[Tensor, "n_k"],
        scale: float,
    ) -> Float[Tensor, "b h n_q n_k"]:
        if q.shape[-1] != self.a_key.shape[-1]:
            raise ValueError(
                f"ETC's vectors of d_head={self.a_key.shape[-1]} must meet heads of that width, "
                f"got {q.shape[-1]}"
            )
        by_label = (q * scale) @ self.a_key.T  # (b, h, n_q, n_labels)
        return by_label.gather(-1, self.label(i, j).expand(*q.shape[:3], len(j)))
