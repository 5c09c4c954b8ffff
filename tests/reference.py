"""The definitions once more, as loops over float64 numbers, sharing no code with the package.

Slow, and meant to be checked by reading. Arrays have no batch axis: one sequence at a time.
"""

from __future__ import annotations

import math

import numpy as np

Array = np.ndarray


# ---------------------------------------------------------------------------------- attention


def attend(
    q: Array,  # (n_q, d_head)
    k: Array,  # (n_k, d_head)
    v: Array,  # (n_k, d_v)
    allowed: Array | None = None,  # (n_q, n_k), True = may read
    *,
    scale: float | None = None,
    bias: Array | None = None,  # (n_q, n_k)
) -> tuple[Array, Array]:
    """Outputs (n_q, d_v) and weights (n_q, n_k): for each query, over the keys it may read."""
    n_q, n_k = len(q), len(k)
    scale = 1 / math.sqrt(q.shape[1]) if scale is None else scale
    weights = np.zeros((n_q, n_k))
    for i in range(n_q):
        read = [j for j in range(n_k) if allowed is None or allowed[i, j]]
        scores = {j: scale * math.fsum(q[i] * k[j]) for j in read}
        if bias is not None:
            scores = {j: score + bias[i, j] for j, score in scores.items()}
        if not scores:
            continue
        top = max(scores.values())
        total = math.fsum(math.exp(score - top) for score in scores.values())
        for j, score in scores.items():
            weights[i, j] = math.exp(score - top) / total
    out = np.zeros((n_q, v.shape[1]))
    for i in range(n_q):
        for c in range(v.shape[1]):
            out[i, c] = math.fsum(weights[i, j] * v[j, c] for j in range(n_k))
    return out, weights


def attend_gradients(
    q: Array, k: Array, v: Array, allowed: Array | None, out_gradient: Array
) -> tuple[Array, Array, Array]:
    """Gradients of sum(out * out_gradient) for q, k and v, by the chain rule on paper.

    d out_i / d score_ij = w_ij (v_j - out_i),  and score_ij = q_i · k_j / √d_head.
    """
    scale = 1 / math.sqrt(q.shape[1])
    out, weights = attend(q, k, v, allowed)
    dq, dk, dv = np.zeros_like(q), np.zeros_like(k), np.zeros_like(v)
    for i in range(len(q)):
        for j in range(len(k)):
            d_score = weights[i, j] * math.fsum(out_gradient[i] * (v[j] - out[i]))
            dq[i] += scale * d_score * k[j]
            dk[j] += scale * d_score * q[i]
            dv[j] += weights[i, j] * out_gradient[i]
    return dq, dk, dv


def causal(n_q: int, n_k: int) -> Array:
    """The last query stands at the last key; a query reads up to where it stands."""
    allowed = np.zeros((n_q, n_k), dtype=bool)
    for i in range(n_q):
        for j in range(n_k):
            allowed[i, j] = j <= i + (n_k - n_q)
    return allowed


# ---------------------------------------------------------------------------------- positions


def sinusoid(t: int, channel: int, d_model: int, base: float = 10_000.0) -> float:
    """One entry of the table: neighbouring channels share a frequency."""
    pair = channel // 2
    angle = t / base ** (2 * pair / d_model)
    return math.sin(angle) if channel % 2 == 0 else math.cos(angle)


def turned(x: Array, t: int, base: float = 10_000.0) -> Array:
    """RoPE: channels (2m, 2m + 1) of one vector as a complex number, times e^(i t ω_m)."""
    d = len(x)
    out = np.zeros(d)
    for m in range(d // 2):
        z = complex(x[2 * m], x[2 * m + 1])
        angle = t * base ** (-2 * m / d)
        z *= complex(math.cos(angle), math.sin(angle))
        out[2 * m], out[2 * m + 1] = z.real, z.imag
    return out


def shaw(
    q: Array, k: Array, v: Array, allowed: Array, a_key: Array, a_value: Array, scale: float
) -> Array:
    """Shaw et al. 2018, equations 3 to 5, pair by pair. Row K + c of a table is distance c."""
    reach = (len(a_key) - 1) // 2
    offset = len(k) - len(q)  # the last query stands at the last key
    rows = np.zeros((len(q), len(k)), dtype=int)
    for i in range(len(q)):
        for j in range(len(k)):
            rows[i, j] = min(max(j - (i + offset), -reach), reach) + reach
    out = np.zeros((len(q), v.shape[1]))
    for i in range(len(q)):
        read = [j for j in range(len(k)) if allowed[i, j]]
        scores = [scale * float(q[i] @ (k[j] + a_key[rows[i, j]])) for j in read]
        total = math.fsum(math.exp(score) for score in scores)
        for j, score in zip(read, scores, strict=True):
            out[i] += math.exp(score) / total * (v[j] + a_value[rows[i, j]])
    return out


def t5_bucket(distance: int, n_buckets: int, max_distance: int, bidirectional: bool) -> int:
    """Raffel et al. 2020: half of a side's buckets hold one distance, the rest grow by a ratio.

    Borders of the growing buckets are compared as numbers; no logarithm is rounded.
    """
    if bidirectional:
        side = n_buckets // 2
        first = side if distance > 0 else 0
        distance = abs(distance)
    else:
        side, first = n_buckets, 0
        distance = max(-distance, 0)
    exact = side // 2
    if distance < exact:
        return first + distance
    ratio = max_distance / exact
    wide = 0
    while wide + 1 < side - exact and distance >= exact * ratio ** ((wide + 1) / (side - exact)):
        wide += 1
    return first + exact + wide


# ------------------------------------------------------------------------------------- layers


def linear(x: Array, weights: dict[str, Array], name: str) -> Array:
    """x Wᵀ + b with the parameters `name.weight` and `name.bias` of a state dict."""
    out = x @ weights[f"{name}.weight"].T
    return out + weights[f"{name}.bias"] if f"{name}.bias" in weights else out


def layer_norm(x: Array, weights: dict[str, Array], name: str, eps: float = 1e-5) -> Array:
    """Each row to mean 0 and (biased) variance 1, then gain and shift."""
    out = np.zeros_like(x)
    for t, row in enumerate(x):
        mean = math.fsum(row) / len(row)
        variance = math.fsum((row - mean) ** 2) / len(row)
        out[t] = (row - mean) / math.sqrt(variance + eps)
    return out * weights[f"{name}.weight"] + weights[f"{name}.bias"]


def multi_head(
    x: Array,
    context: Array,
    weights: dict[str, Array],
    name: str,
    n_heads: int,
    allowed: Array | None = None,
    rotary: bool = False,
) -> Array:
    """A sum over heads: head h has rows h * d .. (h + 1) * d of W^Q, W^K, W^V for itself.

    Lin et al. 2022, equation 26: concatenating and multiplying by W^O is the same as summing
    every head times its own block of W^O.
    """
    q = linear(x, weights, f"{name}.query")
    k = linear(context, weights, f"{name}.key")
    v = linear(context, weights, f"{name}.value")
    d = q.shape[1] // n_heads
    out_map = weights[f"{name}.out.weight"]
    out = np.zeros((len(x), len(out_map)))
    for h in range(n_heads):
        own = slice(h * d, (h + 1) * d)
        q_h, k_h = q[:, own], k[:, own]
        if rotary:
            q_h = np.stack([turned(row, t) for t, row in enumerate(q_h)])
            k_h = np.stack([turned(row, t) for t, row in enumerate(k_h)])
        head, _ = attend(q_h, k_h, v[:, own], allowed)
        out += head @ out_map[:, own].T
    return out + weights.get(f"{name}.out.bias", 0.0)


def feed_forward(x: Array, weights: dict[str, Array], name: str) -> Array:
    """Every token by itself: expand, cut off below zero, contract."""
    rows = []
    for token in x:
        inner = np.maximum(linear(token, weights, f"{name}.expand"), 0)
        rows.append(linear(inner, weights, f"{name}.contract"))
    return np.stack(rows) if rows else np.zeros_like(x)


# ------------------------------------------------------------------------------------- models


def embedded(tokens: list[int], weights: dict[str, Array], name: str, scheme: str) -> Array:
    """Rows of the table times √d_model, plus what an absolute scheme adds."""
    table = weights[f"{name}.table.weight"]
    d_model = table.shape[1]
    x = np.stack([table[token] * math.sqrt(d_model) for token in tokens])
    for t in range(len(tokens)):
        for c in range(d_model):
            if scheme == "sinusoidal":
                x[t, c] += sinusoid(t, c, d_model)
            if scheme == "learned":
                x[t, c] += weights[f"{name}.positions.table"][t, c]
    return x


def stack(
    x: Array,
    weights: dict[str, Array],
    name: str,
    *,
    n_layers: int,
    n_heads: int,
    norm_first: bool,
    allowed: Array | None = None,
    memory: Array | None = None,
    rotary: bool = False,
) -> Array:
    """An encoder, or with a memory a decoder, layer by layer in either order of the norms."""

    def around(x, sublayer, norm):
        if norm_first:
            return x + sublayer(layer_norm(x, weights, norm))
        return layer_norm(x + sublayer(x), weights, norm)

    for number in range(n_layers):
        layer = f"{name}layers.{number}"
        x = around(
            x,
            lambda x: multi_head(x, x, weights, f"{layer}.attention", n_heads, allowed, rotary),  # noqa: B023
            f"{layer}.around_attention.norm",
        )
        if memory is not None:
            x = around(
                x,
                lambda x: multi_head(x, memory, weights, f"{layer}.cross_attention", n_heads),  # noqa: B023
                f"{layer}.around_cross_attention.norm",
            )
        x = around(
            x,
            lambda x: feed_forward(x, weights, f"{layer}.feed_forward"),  # noqa: B023
            f"{layer}.around_feed_forward.norm",
        )
    return layer_norm(x, weights, f"{name}norm") if norm_first else x


def as_numpy(state: dict) -> dict[str, Array]:
    """A module's state dict as float64 arrays."""
    return {name: value.detach().double().numpy() for name, value in state.items()}
