"""Random heads, and the loops that attention is."""

import math

import torch


def heads(b=2, h=2, n=9, d=4, d_v=3, n_k=None, seed=0):
    """q, k and v in float64, as views of tensors with their axes swapped."""
    generator = torch.Generator().manual_seed(seed)

    def random(length, width):
        made = torch.randn(b, length, h, width, generator=generator, dtype=torch.float64)
        return made.transpose(1, 2).requires_grad_()

    n_k = n if n_k is None else n_k
    return random(n, d), random(n_k, d), random(n_k, d_v)


def by_loops(weight, v, n_q):
    """out_i = Σ_j w_ij v_j / Σ_j w_ij with weight(b, h, i, j); zeros where the sum is zero."""
    rows = []
    for b in range(v.shape[0]):
        for h in range(v.shape[1]):
            for i in range(n_q):
                w = torch.stack([weight(b, h, i, j) for j in range(v.shape[2])])
                total = w.sum()
                rows.append(w @ v[b, h] / total if total > 0 else torch.zeros_like(v[b, h, 0]))
    return torch.stack(rows).view(*v.shape[:2], n_q, v.shape[3])


def gradients(out, inputs, seed=1):
    """Of a random weighing of the outputs."""
    generator = torch.Generator().manual_seed(seed)
    d_out = torch.randn(out.shape, generator=generator, dtype=torch.float64)
    return torch.autograd.grad((out * d_out).sum(), inputs)


def softmax_weight(q, k, extra=lambda i, j: 0.0):
    """exp of a score, plus what `extra` adds to it."""
    root = math.sqrt(q.shape[-1])
    return lambda b, h, i, j: torch.exp(q[b, h, i] @ k[b, h, j] / root + extra(i, j))
