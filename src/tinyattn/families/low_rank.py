"""Low rank: the whole matrix of weights from a few of its rows and columns."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from tinyattn.dense import attention, attention_weights
from tinyattn.families.shapes import check_heads, check_sizes, widened, without_autocast
from tinyattn.padding import real_only


def nystrom_attention(
    q: Float[Tensor, "b h n d_head"],
    k: Float[Tensor, "b h n d_head"],
    v: Float[Tensor, "b h n d_v"],
    *,
    n_landmarks: int,
    n_iters: int | None = None,
    key_padding: Bool[Tensor, "b n"] | None = None,
) -> Float[Tensor, "b h n d_v"]:
    """Attention through landmarks, the means of neighbouring queries (q̃) and keys (k̃).

        out ≈ softmax(q k̃ᵀ) · softmax(q̃ k̃ᵀ)⁺ · softmax(q̃ kᵀ) v

    Three thin matrices stand for the n × n one: O(n n_landmarks d_head + n_landmarks³). The rows
    of their product sum to 1 only nearly, and entries may be negative. A landmark holds tokens
    from the future of some of its readers, so no causal form exists.

    Exact if n_landmarks = n with the true pseudoinverse: the three matrices are one then, A, and
    A A⁺ A = A.

    Args:
        q: queries.
        k: keys, as many.
        v: values.
        n_landmarks: segments that the real tokens are cut into, as equal as can be; those that
            find no token are left out.
        n_iters: steps of an iteration that needs products only; the pseudoinverse itself if not
            given.
        key_padding: True where a token is real; nothing depends on the others.

    Raises:
        ValueError: if shapes do not fit, there are not as many queries as keys, or n_landmarks
            or n_iters is below 1.
        TypeError: if the tensors do not share a float dtype.

    Source:
        Xiong et al. 2021, "Nyströmformer", equations 8 to 14 (arXiv:2102.03902), without the
        convolution of v that their model adds. They, and libraries, cut n into equal segments
        only, and start the iteration from a maximum over the whole batch, by which one sequence
        changes another's result; here each matrix starts from its own.

    Example:
        >>> q, k, v = torch.randn(3, 1, 2, 12, 8, dtype=torch.float64)
        >>> exact = attention(q, k, v)
        >>> torch.allclose(nystrom_attention(q, k, v, n_landmarks=12), exact, atol=1e-6)
        True
    """
    check_heads(q, k, v, key_padding)
    (n_landmarks,) = check_sizes(n_landmarks=n_landmarks)
    if n_iters is not None:
        (n_iters,) = check_sizes(n_iters=n_iters)
    if k.shape[2] != q.shape[2]:
        raise ValueError(
            f"landmarks need as many queries as keys, got {q.shape[2]} and {k.shape[2]}"
        )
    with without_autocast(q):
        return _by_landmarks(*widened(q, k, v), n_landmarks, n_iters, key_padding).to(q.dtype)


def _by_landmarks(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    n_landmarks: int,
    n_iters: int | None,
    key_padding: Tensor | None,
) -> Tensor:
    b, _, n, _ = q.shape
    real = q.new_ones(b, n, dtype=torch.bool) if key_padding is None else key_padding
    q, k, v = (real_only(x, key_padding) for x in (q, k, v))
    means = _segment_means(real, n_landmarks, q.dtype)[:, None]  # (b, 1, n_landmarks, n)
    used = (means > 0).any(dim=-1)[:, :, None, :]  # (b, 1, 1, n_landmarks)
    q_mean, k_mean = means @ q, means @ k
    left = attention_weights(q, k_mean, used)  # (b, h, n, n_landmarks)
    middle = attention_weights(q_mean, k_mean, used & used.transpose(2, 3))
    right = attention(q_mean, k, v, real[:, None, None, :])  # (b, h, n_landmarks, d_v)
    inverse = torch.linalg.pinv(middle) if n_iters is None else pinv_by_products(middle, n_iters)
    return left @ (inverse @ right)


def pinv_by_products(a: Float[Tensor, "... m m"], n_iters: int) -> Float[Tensor, "... m m"]:
    """The pseudoinverse of matrices of weights, approached by products of matrices.

        Z ← Z (13 I − A Z (15 I − A Z (7 I − A Z))) / 4,  from  Z = Aᵀ / (‖A‖₁ ‖A‖∞)

    Source:
        Razavi et al. 2014, as in Xiong et al. 2021, equation 11. Slow where A is close to
        singular: the error of a small singular value shrinks late.

    Example:
        >>> a = torch.tensor([[0.75, 0.25], [0.25, 0.75]])
        >>> torch.allclose(pinv_by_products(a, 6) @ a, torch.eye(2), atol=1e-6)
        True
    """
    (n_iters,) = check_sizes(n_iters=n_iters)
    with without_autocast(a):
        one = torch.eye(a.shape[-1], dtype=a.dtype, device=a.device)
        columns, rows = (a.abs().sum(dim=dim).amax(dim=-1) for dim in (-2, -1))
        size = (columns * rows)[..., None, None]
        z = a.transpose(-2, -1) / size.masked_fill(size == 0, 1.0)
        for _ in range(n_iters):
            az = a @ z
            z = z @ (13 * one - az @ (15 * one - az @ (7 * one - az))) / 4
        return z


def _segment_means(real: Tensor, n_landmarks: int, dtype: torch.dtype) -> Tensor:
    """Rows that average a segment each of the real tokens, (b, n_landmarks, n); empty ones zero."""
    place = real.cumsum(dim=1) - 1  # 0, 1, 2, … along the real tokens
    n_real = real.sum(dim=1, keepdim=True).clamp(min=1)
    segment = place * n_landmarks // torch.maximum(n_real, n_real.new_tensor(n_landmarks))
    member = (segment[:, None, :] == torch.arange(n_landmarks, device=real.device)[:, None]) & (
        real[:, None, :]
    )
    return member.to(dtype) / member.sum(dim=2, keepdim=True).clamp(min=1)
