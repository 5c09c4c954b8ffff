"""Published sparse models, each as one expression of the atomic patterns.

What a paper adds that a mask cannot say stands in its docstring; where that is a computation of
its own, the layer is in `tinyattn.transformer`.
"""

from __future__ import annotations

from tinyattn.checks import whole_numbers
from tinyattn.patterns.base import Pattern, at_least, listed
from tinyattn.patterns.global_tokens import Global
from tinyattn.patterns.pieces import After, LastOfBlock, Summaries
from tinyattn.patterns.positional import BlockLocal, Causal, Strided, Window
from tinyattn.patterns.random import Random


def star_transformer() -> Pattern:
    """Each token reads its two neighbours and a relay; the relay reads all: 5 n - 1 pairs.

    The relay is position 0 and the n tokens follow. Any two tokens are two hops apart.

    Beyond the mask: the paper closes the band to a ring, adds the token's embedding to what it
    reads, and updates all tokens first and the relay after them; that is
    `tinyattn.transformer.StarTransformer`.

    Source:
        Guo et al. 2019 (arXiv:1902.09113); as a mask, Lin et al. 2022, section 4.1.1.2.

    Example:
        >>> star_transformer().edges(1 + 12)
        59
    """
    return Window(1) | Global(1)


def longformer(w: int, g: int | tuple[int, ...]) -> Pattern:
    """A window, and some tokens that read all and are read by all.

    Beyond the mask: global tokens have projections of their own, which is
    `tinyattn.transformer.LongformerAttention`. The paper's character models dilate the window of
    two heads in the upper layers: give those heads `Dilated(w, dilation)`.

    Args:
        w: keys read on each side, half of the paper's window.
        g: how many of the first tokens are global, or their positions.

    Source:
        Beltagy et al. 2020, section 3.1 (arXiv:2004.05150).

    Example:
        >>> longformer(w=2, g=2).edges(40)
        340
    """
    return Window(w) | Global(g)


def etc(n_global: int, w: int, sentences: tuple[int, ...] | None = None) -> Pattern:
    """Global tokens before the text: they read everything, the text reads them and a window.

    Four pieces: global to global, global to text, text to global (all of them full), and text to
    text (a window). Each query takes one softmax over all of its keys.

    With `sentences`, global token s is the summary of sentence s and reads only that sentence,
    besides the other global tokens.

    Beyond the mask: relative-position labels for each piece (`Shaw` positions serve for the text
    to text piece), and pre-training that contrasts hidden sentences.

    Args:
        n_global: external tokens; they come first.
        w: keys that a token of the text reads on each side.
        sentences: tokens in each sentence, one for each global token.

    Raises:
        ValueError: if `sentences` has not one length for each global token.

    Source:
        Ainslie et al. 2020, section 2 (arXiv:2004.08483); w is their radius r.

    Example:
        >>> etc(n_global=2, w=1).edges(2 + 10)
        72
    """
    n_global = at_least("n_global", n_global, 0, "tokens")
    if sentences is None:
        return Window(w) | Global(n_global)
    sentences = listed("sentences", sentences, "lengths")
    if len(sentences) != n_global:
        raise ValueError(
            f"give one sentence length for each of the {n_global} global tokens, "
            f"got {len(sentences)}"
        )
    text = Window(w) & After(n_global)
    return Global(n_global, reads=False) | text | Summaries(sentences)


def bigbird(n: int, block_size: int, r: int, seed: int, *, n_global: int | None = None) -> Pattern:
    """Neighbouring blocks, global tokens, and r random blocks for each block of queries.

    Without `n_global` the first and the last block are global (ITC). With it, that many external
    tokens come first and are global instead (ETC); n counts them. The random blocks are drawn
    outside of what the other rules allow. Nothing here goes beyond a mask.

    Args:
        n: tokens.
        block_size: tokens in a block.
        r: random blocks for each block of queries.
        seed: of the draw.
        n_global: external global tokens, a multiple of block_size.

    Raises:
        ValueError: if n has fewer than two whole blocks, or n_global is no multiple of block_size
            or above n.

    Source:
        Zaheer et al. 2020, section 2 and appendix D (arXiv:2007.14062). Their code draws from a
        seed, for training and use alike; the port in transformers leaves the random blocks out
        in evaluation. Here the draw is part of the pattern.

    Example:
        >>> bigbird(32, block_size=2, r=3, seed=0).edges(32)
        568
    """
    (n,), block_size = whole_numbers(n=n), at_least("block_size", block_size, 1)
    if n < 2 * block_size:
        raise ValueError(
            f"bigbird needs two whole blocks or more, got n={n}, block_size={block_size}"
        )
    if n_global is None:
        last = (n - 1) // block_size * block_size  # where the last block begins, short or not
        fixed = Global((*range(block_size), *range(last, n)))
    else:
        n_global = at_least("n_global", n_global, 0, "tokens")
        if n_global % block_size or n_global > n:
            raise ValueError(
                f"n_global must be a multiple of block_size={block_size} and at most n={n}, "
                f"got {n_global}"
            )
        fixed = Global(n_global)
    local = fixed | BlockLocal(block_size, before=1, after=1)
    return local | Random(n, r, seed, block_size=block_size, exclude=local)


def sparse_strided_factors(stride: int) -> tuple[Pattern, Pattern]:
    """The two halves of `sparse_strided`, for alternating layers or different heads."""
    return Window(stride) & Causal(), Strided(stride) & Causal()


def sparse_strided(stride: int) -> Pattern:
    """The last `stride` keys, and every stride-th one before: two hops to any earlier token.

    With a stride near √n a row has about 2 √n keys. Fits data with a period, such as the rows
    of a picture.

    Beyond the mask: the paper uses the two factors in alternating layers, as different heads, or
    merged as here.

    Source:
        Child et al. 2019, section 4.3 (arXiv:1904.10509). They allow i - j <= stride, their code
        i - j < stride; the union is the same, as the other factor holds i - j = stride.

    Example:
        >>> sparse_strided(8).edges(64)
        708
    """
    near, far = sparse_strided_factors(stride)
    return near | far


def sparse_fixed_factors(stride: int, c: int) -> tuple[Pattern, Pattern]:
    """The two halves of `sparse_fixed`, for alternating layers or different heads.

    The first stride - c queries find nothing in the second factor: their rows are empty.
    """
    return BlockLocal(stride) & Causal(), LastOfBlock(stride, c) & Causal()


def sparse_fixed(stride: int, c: int) -> Pattern:
    """The own block so far, and the last c keys of every earlier block.

    Those keys summarise their blocks. They are read by everyone after them, and read no more
    than others do.

    Beyond the mask: as for `sparse_strided`; the paper lets each head use other columns of the
    block as its summary.

    Args:
        stride: tokens in a block.
        c: summary tokens at the end of each block.

    Source:
        Child et al. 2019, section 4.3 (arXiv:1904.10509). Lin et al. 2022 list it under global
        attention: the summaries are global keys only.

    Example:
        >>> sparse_fixed(8, c=2).edges(64)
        736
    """
    near, far = sparse_fixed_factors(stride, c)
    return near | far
