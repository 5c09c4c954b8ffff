"""Pictures by rows and columns: positions, and Axial Transformer's causal model."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from tinyattn.checks import whole_numbers
from tinyattn.patterns import Causal, axial_columns, axial_rows
from tinyattn.transformer.blocks import EncoderLayer, last_norm
from tinyattn.transformer.config import TransformerConfig
from tinyattn.transformer.embedding import Embedding, check_token_ids
from tinyattn.transformer.positions import Positions


class AxialPositions(Positions):
    """Adds a learned vector for the row of a pixel and one for its column.

    (height + width) * d_model parameters instead of height * width * d_model; tokens are pixels
    in raster order.

    Source:
        Ho et al. 2019, section 3.2 (arXiv:1912.12180). Reformer's axial positions put the two side
        by side, each with a part of d_model.

    Example:
        >>> AxialPositions(2, 3, d_model=4).embed(torch.zeros(1, 6, 4)).shape
        torch.Size([1, 6, 4])
    """

    def __init__(self, height: int, width: int, d_model: int) -> None:
        super().__init__()
        height, width, d_model = whole_numbers(height=height, width=width, d_model=d_model)
        if min(height, width, d_model) < 1:
            raise ValueError(
                "height, width and d_model must be 1 or more, "
                f"got height={height}, width={width}, d_model={d_model}"
            )
        self.rows = nn.Parameter(torch.empty(height, d_model).normal_(std=0.02))
        self.columns = nn.Parameter(torch.empty(width, d_model).normal_(std=0.02))

    @classmethod
    def from_config(
        cls, config: TransformerConfig, *, bidirectional: bool = True
    ) -> AxialPositions:
        raise TypeError(
            "AxialPositions needs the height and width of the picture, which a config does not "
            "know: add AxialPositions(height, width, d_model) to the vectors that the model reads"
        )

    def embed(
        self, x: Float[Tensor, "b n d_model"], start: int = 0
    ) -> Float[Tensor, "b n d_model"]:
        (start,) = whole_numbers(start=start)
        n_pixels = len(self.rows) * len(self.columns)
        if not 0 <= start <= start + x.shape[1] <= n_pixels or x.shape[2] != self.rows.shape[1]:
            raise ValueError(
                f"axial positions of {len(self.rows)} rows and {len(self.columns)} columns need at "
                f"most {n_pixels} pixels of width {self.rows.shape[1]}, "
                f"got {tuple(x.shape)} from pixel {start} on"
            )
        table = (self.rows[:, None] + self.columns).flatten(0, 1)
        return x + table[start : start + x.shape[1]]


class AxialTransformer(nn.Module):
    """Scores each pixel from those before it in raster order, by rows and columns alone.

        outer   unmasked rows, then masked columns: (row, col) knows all rows up to its own
        shift   down by one row: it knows all rows above its own
        inner   masked rows over the pixels, shifted right by one: and what is left of it

    Both shifts bring in zeros. The outer part of a picture changes once a row, so that sampling
    needs the expensive layers height times and the inner ones, over one row, for each pixel.
    n pixels of a square cost O(n √n) scores in every layer.

    Args:
        config: sizes and choices; vocab_size counts the values of a pixel, and n_layers the
            outer pairs of a row and a column layer. Its positions are not used, nor is
            tie_embeddings: the map to logits is always one of its own.
        height: of the picture, in pixels.
        width: of the picture.
        n_inner: inner layers.

    Raises:
        ValueError: if a size is below 1, or a picture has another number of pixels.

    Source:
        Ho et al. 2019, section 3.2 (arXiv:1912.12180), one colour channel.

    Example:
        >>> config = TransformerConfig(vocab_size=5, d_model=8, n_heads=2, d_ff=16, n_layers=1)
        >>> AxialTransformer(config, 2, 3, n_inner=1)(torch.zeros(1, 6, dtype=torch.long)).shape
        torch.Size([1, 6, 5])
    """

    def __init__(self, config: TransformerConfig, height: int, width: int, n_inner: int) -> None:
        super().__init__()
        height, width, n_inner = whole_numbers(height=height, width=width, n_inner=n_inner)
        if n_inner < 1:
            raise ValueError(f"n_inner must be 1 or more, got {n_inner}")
        self.height, self.width = height, width
        rows, columns = axial_rows(width), axial_columns(width)
        self.embedding = Embedding(config.vocab_size, config, Positions())
        self.positions = AxialPositions(height, width, config.d_model)
        self.outer = nn.ModuleList(
            EncoderLayer(config, pattern=rule)
            for _ in range(config.n_layers)
            for rule in (rows, columns & Causal())
        )
        self.inner = nn.ModuleList(
            EncoderLayer(config, pattern=rows & Causal()) for _ in range(n_inner)
        )
        self.norm = last_norm(config)
        self.to_logits = nn.Linear(config.d_model, config.vocab_size, bias=False)

    def forward(self, pixels: Int64[Tensor, "b n"]) -> Float[Tensor, "b n vocab_size"]:
        """Logits of each pixel's value, from the pixels before it.

        Raises:
            ValueError: if pixels are not (b, height * width), or out of range.
            TypeError: if they are no integers.
        """
        check_token_ids(pixels, "pixels")
        if pixels.shape[1] != self.height * self.width:
            raise ValueError(
                f"a picture of {self.height} rows and {self.width} columns has "
                f"{self.height * self.width} pixels, got {pixels.shape[1]}"
            )
        values = self.embedding(pixels)
        above = self.positions.embed(values)
        for layer in self.outer:
            above = layer(above)
        x = self.positions.embed(self.shifted_right(values) + self.shifted_down(above))
        for layer in self.inner:
            x = layer(x)
        return self.to_logits(self.norm(x))

    def shifted_down(self, x: Float[Tensor, "b n d_model"]) -> Float[Tensor, "b n d_model"]:
        """Each row in the place of the next; the first row is zeros."""
        return torch.cat([torch.zeros_like(x[:, : self.width]), x[:, : -self.width]], dim=1)

    def shifted_right(self, x: Float[Tensor, "b n d_model"]) -> Float[Tensor, "b n d_model"]:
        """Each pixel in the place of the next one of its row; the first column is zeros."""
        rows = x.unflatten(1, (self.height, self.width))
        moved = torch.cat([torch.zeros_like(rows[:, :, :1]), rows[:, :, :-1]], dim=2)
        return moved.flatten(1, 2)
