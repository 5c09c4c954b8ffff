"""What layers cost, as formulas: multiply-accumulates, parameters, values kept, steps in a row."""

from __future__ import annotations

from dataclasses import dataclass, fields

from tinyattn.checks import whole_numbers
from tinyattn.groups import schedule
from tinyattn.patterns import Pattern
from tinyattn.patterns.base import check_pattern, keep


@dataclass(frozen=True)
class Cost:
    """What one sequence costs in one layer; costs of layers that follow each other add up.

    Products of matrices are counted, and they alone: biases, softmax, nonlinearities and norms
    hold none, and grow more slowly than what stands beside them.

    Args:
        macs: multiply-accumulates of the matrix products, forward.
        parameters: learned numbers, biases included.
        activations: values that the gradient's formulas need from the forward pass, each tensor
            once: the input of a linear map, the weights of attention, what a ReLU lets through.
        steps: operations that have to wait for each other, with each layer but the recurrent one
            taken as one.

    Example:
        >>> two_layers = 2 * encoder_layer_cost(n=10, d_model=8, d_ff=32)
        >>> two_layers.flops, two_layers.parameters, two_layers.steps
        (37120, 1744, 4)
    """

    macs: int
    parameters: int
    activations: int
    steps: int = 1

    def __post_init__(self) -> None:
        parts = {field.name: getattr(self, field.name) for field in fields(self)}
        keep(self, **dict(zip(parts, whole_numbers(**parts), strict=True)))

    @property
    def flops(self) -> int:
        """A multiply-accumulate is two operations: a product and a sum."""
        return 2 * self.macs

    def activation_bytes(self, bytes_per_value: int = 4) -> int:
        """Bytes of the kept values; four a value in float32, two in half precision."""
        (bytes_per_value,) = _check(bytes_per_value=bytes_per_value)
        return bytes_per_value * self.activations

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.macs + other.macs,
            self.parameters + other.parameters,
            self.activations + other.activations,
            self.steps + other.steps,
        )

    def __mul__(self, n_layers: int) -> Cost:
        (n_layers,) = _check(n_layers=n_layers)
        parts = (self.macs, self.parameters, self.activations, self.steps)
        return Cost(*(n_layers * part for part in parts))

    __rmul__ = __mul__


# ------------------------------------------------------------------------------- attention


def core_cost(
    n: int,
    n_heads: int,
    d_head: int,
    *,
    n_k: int | None = None,
    n_pairs: int | None = None,
    fused: bool = False,
) -> Cost:
    """softmax(q kᵀ) v in every head: two products for each pair of a query and a key.

    With all pairs and n_heads * d_head = d_model, that is 2 * n² * d_model multiply-accumulates,
    whatever n_heads is; the weights, n_heads * n² values, do depend on it.

    Args:
        n: queries.
        n_heads: heads.
        d_head: width of q, k and v in one head.
        n_k: keys; n if not given.
        n_pairs: pairs computed in each head, as of `computed_pairs`; n * n_k if not given. More
            are possible: blocks of a schedule may overlap, which costs what it costs.
        fused: whether the weights are forgotten and computed again for the gradient, as fused
            kernels and `sparse_attention` do. Then one number stays for each query, the log of
            its softmax's denominator, instead of one for each pair. The products are the same.

    Raises:
        ValueError: if a size is below 1, or n, n_k or n_pairs negative.
        TypeError: if one is no whole number.
    """
    n, n_k = _check(n=n, n_k=n if n_k is None else n_k)
    (n_pairs,) = _check(n_pairs=n * n_k if n_pairs is None else n_pairs)
    n_heads, d_head = _check_sizes(n_heads=n_heads, d_head=d_head)
    per_head = (n + 2 * n_k) * d_head + (n if fused else n_pairs)  # q, k, v; weights
    return Cost(2 * n_heads * n_pairs * d_head, 0, n_heads * per_head)


def attention_cost(
    n: int,
    d_model: int,
    *,
    n_heads: int = 1,
    d_head: int | None = None,
    n_k: int | None = None,
    n_pairs: int | None = None,
    bias: bool = True,
    fused: bool = False,
) -> Cost:
    """`MultiHeadAttention`: four projections and the core between them.

        macs = 4 * n * d_model² + 2 * n² * d_model        parameters = 4 * d_model² + 4 * d_model

    Args:
        n: queries.
        d_model: width of a token vector.
        n_heads: heads.
        d_head: width of a head; d_model / n_heads if not given.
        n_k: tokens of another sequence that is read (cross-attention); the queries' own if not
            given.
        n_pairs: pairs computed in each head; all if not given. A causal mask alone saves none:
            the module computes every score and forbids half of them.
        bias: whether the projections have one.
        fused: see `core_cost`.

    Raises:
        ValueError: if a size is below 1, or d_head is missing and n_heads does not divide d_model.
        TypeError: if one is no whole number.

    Source:
        Lin et al. 2022, table 1 (arXiv:2106.04554), which gives n² * d_model and 4 * d_model²:
        without projections, biases and factors.

    Example:
        >>> attention_cost(n=100, d_model=64).macs == 4 * 100 * 64**2 + 2 * 100**2 * 64
        True
    """
    d_model, n_heads = _check_sizes(d_model=d_model, n_heads=n_heads)
    if d_head is None:
        if d_model % n_heads:
            raise ValueError(
                "d_model must be divisible by n_heads, "
                f"got d_model={d_model} and n_heads={n_heads}; or give d_head"
            )
        d_head = d_model // n_heads
    core = core_cost(n, n_heads, d_head, n_k=n_k, n_pairs=n_pairs, fused=fused)
    own = n_k is None
    n, n_k, d_head = whole_numbers(n=n, n_k=n if own else n_k, d_head=d_head)
    context = 0 if own else n_k * d_model  # another sequence is kept as well
    inner = n_heads * d_head
    return Cost(
        macs=2 * (n + n_k) * d_model * inner + core.macs,
        parameters=4 * d_model * inner + bias * (3 * inner + d_model),
        activations=n * d_model + context + core.activations + n * inner,  # x, the heads' results
    )


def attention_flops(n: int, d_model: int, **sizes: int | None) -> int:
    """Operations of an attention layer, 8 * n * d_model² + 4 * n² * d_model; see `attention_cost`.

    Example:
        >>> attention_flops(n=10, d_model=8)
        8320
    """
    return attention_cost(n, d_model, **sizes).flops


def kept_pairs(pattern: Pattern, n: int, n_k: int | None = None) -> int:
    """Pairs that a rule allows: what an ideal program would compute.

    Example:
        >>> from tinyattn.patterns import Window
        >>> kept_pairs(Window(2), 10), kept_pairs(Window(2), 1, 10)
        (44, 3)
    """
    check_pattern(pattern)
    if n_k in (None, n):
        return pattern.edges(n)
    return sum(group.n_allowed for group in schedule(pattern, n, n_k).groups)


def computed_pairs(pattern: Pattern, n: int, n_k: int | None = None) -> int:
    """Pairs that `sparse_attention` computes for a rule: blocks, with the forbidden pairs in them.

    Of a rule that fills no blocks, such as random keys, the pairs are computed one by one.

    Example:
        >>> from tinyattn.patterns import Window
        >>> computed_pairs(Window(16), 1024), kept_pairs(Window(16), 1024)
        (96256, 33520)
    """
    return schedule(pattern, n, n_k).n_computed


# --------------------------------------------------------------------- what stands beside it


def linear_cost(n: int, d_in: int, d_out: int, *, bias: bool = True) -> Cost:
    """x W + b at each of n positions."""
    (n,) = _check(n=n)
    d_in, d_out = _check_sizes(d_in=d_in, d_out=d_out)
    return Cost(n * d_in * d_out, d_in * d_out + bias * d_out, n * d_in)


def ffn_cost(n: int, d_model: int, d_ff: int | None = None) -> Cost:
    """`FeedForward`: two linear maps; with d_ff = 4 * d_model, 8 * n * d_model² macs.

    What a ReLU lets through is kept once: it is its gradient's mask and the next map's input.

    Args:
        n: tokens.
        d_model: width of a token vector.
        d_ff: inner width; 4 * d_model if not given.

    Example:
        >>> cost = ffn_cost(n=100, d_model=64)
        >>> cost.macs == 8 * 100 * 64**2, cost.parameters == 8 * 64**2 + 5 * 64
        (True, True)
    """
    (d_model,) = _check_sizes(d_model=d_model)
    d_ff = 4 * d_model if d_ff is None else d_ff
    both = linear_cost(n, d_model, d_ff) + linear_cost(n, d_ff, d_model)
    return Cost(both.macs, both.parameters, both.activations)


def ffn_flops(n: int, d_model: int, d_ff: int | None = None) -> int:
    """Operations of a feed-forward layer, 4 * n * d_model * d_ff; see `ffn_cost`.

    Example:
        >>> ffn_flops(n=10, d_model=8)
        10240
    """
    return ffn_cost(n, d_model, d_ff).flops


def norm_cost(n: int, d_model: int) -> Cost:
    """LayerNorm: no product; its input stays, and the mean and spread of each token."""
    (n,) = _check(n=n)
    (d_model,) = _check_sizes(d_model=d_model)
    return Cost(0, 2 * d_model, n * d_model + 2 * n, steps=0)


def encoder_layer_cost(
    n: int,
    d_model: int,
    d_ff: int | None = None,
    *,
    n_heads: int = 1,
    n_pairs: int | None = None,
    fused: bool = False,
) -> Cost:
    """`EncoderLayer`: attention, feed-forward, two norms; either order of the norms costs the same.

    With d_ff = 4 * d_model: 12 * n * d_model² + 2 * n² * d_model macs, and
    12 * d_model² + 13 * d_model parameters. A decoder-only layer costs as much.

    Example:
        >>> encoder_layer_cost(n=10, d_model=8, n_heads=2).parameters == 12 * 8**2 + 13 * 8
        True
    """
    attention = attention_cost(n, d_model, n_heads=n_heads, n_pairs=n_pairs, fused=fused)
    return attention + ffn_cost(n, d_model, d_ff) + 2 * norm_cost(n, d_model)


def decoder_layer_cost(
    n: int,
    n_memory: int,
    d_model: int,
    d_ff: int | None = None,
    *,
    n_heads: int = 1,
    fused: bool = False,
) -> Cost:
    """`DecoderLayer` with cross-attention to n_memory tokens of an encoder.

    The memory is kept once in each layer's count, although all layers read the same.
    """
    read = attention_cost(n, d_model, n_heads=n_heads, n_k=n_memory, fused=fused)
    own = encoder_layer_cost(n, d_model, d_ff, n_heads=n_heads, fused=fused)
    return own + read + norm_cost(n, d_model)


# -------------------------------------------------------------- the other layers of table 2


def convolution_cost(n: int, d_model: int, width: int, *, bias: bool = True) -> Cost:
    """`Convolution`: each output is a linear map of `width` inputs, dilated or not.

    The products with the zeros that pad the ends are counted: they are computed.

    Source:
        Lin et al. 2022, table 2: width * n * d_model².
    """
    (n,) = _check(n=n)
    d_model, width = _check_sizes(d_model=d_model, width=width)
    parameters = width * d_model**2 + bias * d_model
    return Cost(n * width * d_model**2, parameters, n * d_model)


def recurrence_cost(n: int, d_model: int, *, bias: bool = True) -> Cost:
    """`Recurrence`: a linear map of the token and one of the state, n times in a row.

    The states are kept: each is its tanh's gradient and the next step's input. The first state
    is zero and multiplied all the same.

    Source:
        Lin et al. 2022, table 2: n * d_model², n steps. One bias, where `torch.nn.RNN` has two.
    """
    (n,) = _check(n=n)
    (d_model,) = _check_sizes(d_model=d_model)
    parameters = 2 * d_model**2 + bias * d_model
    return Cost(2 * n * d_model**2, parameters, (2 * n + 1) * d_model if n else 0, steps=n)


def fully_connected_cost(n: int, d_model: int, *, bias: bool = True) -> Cost:
    """`FullyConnected`: one linear map of the whole sequence, laid out as a vector.

    Source:
        Lin et al. 2022, table 2: n² * d_model². That is also its number of parameters, and so
        the layer knows one length only.
    """
    n, d_model = _check_sizes(n=n, d_model=d_model)
    return linear_cost(1, n * d_model, n * d_model, bias=bias)


def _check(**counts: int) -> tuple[int, ...]:
    """Counts as Python's integers, in which no product overflows."""
    found = whole_numbers(**counts)
    for name, count in zip(counts, found, strict=True):
        if count < 0:
            raise ValueError(f"{name} must be 0 or more, got {count}")
    return found


def _check_sizes(**sizes: int) -> tuple[int, ...]:
    found = whole_numbers(**sizes)
    for name, size in zip(sizes, found, strict=True):
        if size < 1:
            raise ValueError(f"{name} must be 1 or more, got {size}")
    return found
