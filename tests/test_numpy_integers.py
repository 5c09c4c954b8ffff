"""NumPy's integers wherever a size is asked for: what is built of them is what Python's build."""

import ast
import inspect
from collections.abc import Callable, Iterator
from dataclasses import is_dataclass
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import tinyattn
from tinyattn import analysis, content, families, transformer
from tinyattn.patterns import Full, Window, bp_transformer
from tinyattn.training import learning_rate, seeded, train
from tinyattn.transformer import TransformerConfig

pytestmark = pytest.mark.usefixtures("refusals")

Kind = Callable[[int], int]
CHECKS = {"whole_numbers", "check_sizes", "check_lengths", "check_membership", "check_iterations"}


def randn(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def config(x: Kind, **choices: object) -> TransformerConfig:
    sizes = {"vocab_size": x(100), "d_model": x(8), "n_heads": x(2), "d_ff": x(16)}
    return TransformerConfig(**{**sizes, "n_layers": x(1), **choices})


def built(module: nn.Module, *inputs: Tensor, **choices: object) -> list[object]:
    """What a layer holds, and what it makes of an input."""
    module = module.double().eval()
    kept = [part.__dict__ for part in module.modules()]
    return [numbers(kept), module.state_dict(), module(*inputs, **choices) if inputs else None]


def numbers(kept: list[dict[str, object]]) -> list[tuple[type, object]]:
    """The integers among the attributes of a module and its parts, with their kinds."""
    found = [one for attributes in kept for one in attributes.values()]
    found = [one for x in found for one in (x if isinstance(x, tuple) else (x,))]
    return [(type(x), x) for x in found if isinstance(x, int | np.generic)]


def scored(positions: transformer.Positions, n: int, width: int) -> list[object]:
    """What a scheme adds to the scores of n tokens, and what it holds."""
    q, at = randn(1, 2, n, width), torch.arange(n)
    return [*built(positions), positions.double().score_bias(q, at, at, 1.0)]


def trained(x: Kind, name: str) -> list[float]:
    parameter = nn.Parameter(torch.ones(2))
    return train(
        [parameter], lambda g: parameter.square().sum(), lr=0.1, **{"steps": 4, name: x(3)}
    )


PIXELS = torch.arange(100).view(1, -1)
ROUTED = (randn(1, 2, 12, 4), randn(1, 2, 12, 4), randn(1, 2, 12, 4))
CENTROIDS = randn(2, 3, 4)
BLOCKS = randn(1, 2, 3, 3)
EDGES = content.Edges(*(torch.ones(1, 1, 1, dtype=torch.long),) * 2, torch.ones(1, 1, 1) > 0)


def initialised(x: Kind) -> Tensor:
    router = content.RoutingRouter(2, 3, 4).double()
    router.initialise(*ROUTED[:2], n_iters=x(3))
    return router.centroids


def decoder() -> transformer.Decoder:
    return transformer.Decoder(config(int)).eval()


def translated(x: Kind) -> Tensor:
    model = transformer.Seq2Seq(config(int))
    return model.translate(PIXELS[:, :9], start_token=x(1), stop_token=x(2), n_new=x(4))


def cached(x: Kind) -> tuple[int, Tensor]:
    cache = transformer.KVCache()
    cache.append(randn(1, 2, 9, 4), randn(1, 2, 9, 4))
    cache.keep_last(x(3))
    return len(cache), cache.k


T, F, C, A = transformer, families, content, analysis
SIZES = {  # each public function or class that takes a size, called with integers of one kind
    "transformer": {
        "AxialPositions": lambda x: [
            *built(T.AxialPositions(x(100), x(2), x(8))),
            T.AxialPositions(x(100), x(2), x(8)).embed(randn(1, 150, 8)),
        ],
        "AxialPositions.embed": lambda x: T.AxialPositions(20, 10, 8).embed(
            randn(1, 100, 8), start=x(100)
        ),
        "AxialTransformer": lambda x: built(
            T.AxialTransformer(config(x), x(20), x(20), n_inner=x(1)), PIXELS.repeat(1, 4)
        ),
        "BPTransformer": lambda x: built(
            T.BPTransformer(config(x), x(100), x(2), clip=x(3)), PIXELS
        ),
        "EdgeTypes": lambda x: scored(T.EdgeTypes(bp_transformer(64, 3), x(4), x(100)), 127, 4),
        "EtcPositions": lambda x: scored(
            T.EtcPositions(x(4), x(2), x(100), (x(90), x(20))), 112, 4
        ),
        "FeedForward": lambda x: built(T.FeedForward(x(8), x(16), x(3)), randn(1, 7, 8)),
        "FeedForward, by size": lambda x: built(
            T.FeedForward(x(8), x(16), chunk_size=x(3)), randn(1, 7, 8)
        ),
        "KVCache.keep_last": cached,
        "Learned": lambda x: built(T.Learned(x(100), x(8))),
        "Learned.embed": lambda x: T.Learned(200, 8).embed(randn(1, 100, 8), start=x(100)),
        "LongformerAttention": lambda x: built(T.LongformerAttention(x(8), x(2), x(100))),
        "LongformerAttention.forward": lambda x: built(
            T.LongformerAttention(8, 2, 3), randn(1, 120, 8), global_positions=(x(110),)
        ),
        "MultiHeadAttention": lambda x: built(T.MultiHeadAttention(x(8), x(2)), randn(1, 7, 8)),
        "MultiHeadAttention, d_head": lambda x: built(
            T.MultiHeadAttention(x(8), x(100), d_head=x(2)), randn(1, 7, 8)
        ),
        "Positions.embed": lambda x: T.Positions().embed(randn(1, 7, 8), x(3)),
        "RoPE": lambda x: [
            *built(T.RoPE(x(100))),
            T.RoPE(x(100)).rotate(randn(1, 1, 7, 100), torch.arange(7)),
        ],
        "Seq2Seq.translate": translated,
        "Shaw": lambda x: scored(T.Shaw(x(4), x(100)), 120, 4),
        "Sinusoidal.embed": lambda x: T.Sinusoidal().embed(randn(1, 100, 8), start=x(100)),
        "StarTransformer": lambda x: built(T.StarTransformer(x(8), x(2), x(2)), randn(1, 7, 8)),
        "T5Bias": lambda x: scored(T.T5Bias(x(2), x(100), x(120)), 130, 4),
        "TransformerConfig": lambda x: config(
            x, target_vocab_size=x(5), n_decoder_layers=x(1), n_chunks=x(2), max_len=x(9)
        ),
        "TransformerConfig, built": lambda x: built(
            T.Encoder(config(x, n_chunks=x(3), max_distance=x(100), positions=T.Shaw)), PIXELS
        ),
        "generate": lambda x: T.generate(
            decoder(),
            PIXELS,
            x(5),
            top_k=x(3),
            stop_token=x(90),
            temperature=1.0,
            generator=torch.Generator().manual_seed(0),
        ),
        "next_token": lambda x: T.next_token(
            randn(3, 9), 1.0, top_k=x(3), generator=torch.Generator().manual_seed(0)
        ),
        "sinusoidal_positions": lambda x: T.sinusoidal_positions(x(100), x(4), start=x(100)),
    },
    "families": {
        "Convolution": lambda x: built(
            F.Convolution(x(8), x(3), dilation=x(100)), randn(1, 120, 8)
        ),
        "FullyConnected": lambda x: built(F.FullyConnected(x(20), x(20)), randn(1, 20, 20)),
        "GroupedQueryAttention": lambda x: built(
            F.GroupedQueryAttention(x(120), x(60), x(30)), randn(1, 5, 120)
        ),
        "Linformer": lambda x: built(
            F.Linformer(x(8), x(2), n=x(100), n_memory=x(90)), randn(1, 99, 8)
        ),
        "Recurrence": lambda x: built(F.Recurrence(x(8)), randn(1, 5, 8)),
        "gaussian_prior": lambda x: F.gaussian_prior(x(100), x(120), spread=2.0),
        "linear_attention": lambda x: F.linear_attention(*ROUTED, causal=True, chunk_size=x(5)),
        "nystrom_attention": lambda x: F.nystrom_attention(*ROUTED, n_landmarks=x(5), n_iters=x(3)),
        "pinv_by_products": lambda x: F.pinv_by_products(BLOCKS, x(3)),
    },
    "content": {
        "EdgePredictor": lambda x: built(C.EdgePredictor(x(8), x(16))),
        "EdgePredictor.forward": lambda x: C.EdgePredictor(8, 16)(
            torch.ones(1, 1, 40, 8), x(120), generator=torch.Generator().manual_seed(0)
        ).edges.mask(40),
        "Edges.mask": lambda x: EDGES.mask(x(100)),
        "LSHRouter": lambda x: built(
            C.LSHRouter(n_buckets=x(4), n_hashes=x(2), chunk_size=x(5), seed=x(3))
        ),
        "RoutingRouter": lambda x: built(
            C.RoutingRouter(x(2), x(3), x(4), membership="balanced", cluster_size=x(5), seed=x(3))
        ),
        "RoutingRouter.initialise": initialised,
        "RunningMean": lambda x: built(C.RunningMean(shape=(x(2), x(3)))),
        "SAC": lambda x: built(C.SAC(x(20), x(20), edges_per_token=x(2), d_hidden=x(9), seed=x(3))),
        "SACRouter": lambda x: built(C.SACRouter(x(20), x(20), edges_per_token=x(2))),
        "SinkhornRouter": lambda x: built(
            C.SinkhornRouter(
                x(2), x(100), block_size=x(4), n_blocks=x(100), n_iters=x(3), seed=x(3)
            )
        ),
        "SortingNetwork": lambda x: built(C.SortingNetwork(x(2), x(8), x(100)), randn(1, 2, 9, 8)),
        "block_sums": lambda x: C.block_sums(ROUTED[0], x(5)),
        "bucket_factors": lambda x: C.bucket_factors(x(126), x(100)),
        "chosen": lambda x: C.chosen(ROUTED[0], CENTROIDS, x(5)),
        "lsh_attention": lambda x: C.lsh_attention(
            *ROUTED[:2], n_buckets=x(4), n_hashes=x(2), chunk_size=x(3), seed=x(3)
        ),
        "lsh_buckets": lambda x: C.lsh_buckets(
            ROUTED[0], n_buckets=x(64), n_hashes=x(2), seed=x(3)
        ),
        "lsh_mask": lambda x: C.lsh_mask(torch.arange(12).view(1, 1, 1, 12) % 4, chunk_size=x(3)),
        "matched_pattern": lambda x: C.matched_pattern(BLOCKS[0, 0], x(5)),
        "reward_to_go": lambda x: C.reward_to_go(randn(3), x(5)),
        "routing_attention": lambda x: C.routing_attention(
            *ROUTED, CENTROIDS, membership="balanced", cluster_size=x(5)
        ),
        "routing_weights": lambda x: C.routing_weights(
            *ROUTED[:2], CENTROIDS, membership="balanced", cluster_size=x(5)
        ),
        "sinkhorn_attention": lambda x: C.sinkhorn_attention(*ROUTED, BLOCKS, n_iters=x(3)),
        "soft_permutation": lambda x: C.soft_permutation(BLOCKS, n_iters=x(3)),
        "sortcut_attention": lambda x: C.sortcut_attention(
            *ROUTED, BLOCKS, n_kept=x(2), n_iters=x(3)
        ),
    },
    "analysis": {
        "Cost": lambda x: (A.Cost(x(100), x(100), x(100), x(100)) * x(12)).flops,
        "Cost.activation_bytes": lambda x: A.Cost(1, 1, 100).activation_bytes(x(4)),
        "Cost.__mul__": lambda x: (A.Cost(1000, 9, 9) * x(12), x(12) * A.Cost(1000, 9, 9)),
        "adjacency": lambda x: A.adjacency(Window(3), x(100)).toarray(),
        "attention_cost": lambda x: A.attention_cost(x(100), x(64), n_heads=x(2), n_k=x(120)),
        "attention_cost, d_head": lambda x: A.attention_cost(
            x(100), x(64), n_heads=x(30), d_head=x(60), n_pairs=x(90)
        ),
        "attention_flops": lambda x: A.attention_flops(x(100), x(64)),
        "computed_pairs": lambda x: A.computed_pairs(Window(3), x(90), x(100)),
        "convolution_cost": lambda x: A.convolution_cost(x(100), x(64), x(30)),
        "core_cost": lambda x: A.core_cost(x(100), x(8), x(64), n_k=x(120)),
        "decoder_layer_cost": lambda x: A.decoder_layer_cost(x(100), x(90), x(64), n_heads=x(2)),
        "dilated_layers": lambda x: A.dilated_layers(x(100), x(3)),
        "encoder_layer_cost": lambda x: A.encoder_layer_cost(x(100), x(64), x(100), n_heads=x(2)),
        "ffn_cost": lambda x: A.ffn_cost(x(100), x(64)),
        "ffn_flops": lambda x: A.ffn_flops(x(100), x(64), x(100)),
        "first_seen": lambda x: A.first_seen([Window(3)] * 9, x(90), x(100)),
        "fully_connected_cost": lambda x: A.fully_connected_cost(x(100), x(64)),
        "kept_pairs": lambda x: (
            A.kept_pairs(Window(3), x(100)),
            A.kept_pairs(Window(3), x(90), x(100)),
        ),
        "linear_cost": lambda x: A.linear_cost(x(100), x(64), x(64)),
        "max_path_length": lambda x: A.max_path_length(Window(3), x(100)),
        "medians": lambda x: list(A.medians({"one": lambda: 1}, x(2))),
        "mixing_time": lambda x: A.mixing_time(Full(), x(100), n_steps=x(3)),
        "n_components": lambda x: A.n_components(Full(), x(100)),
        "norm_cost": lambda x: A.norm_cost(x(100), x(64)),
        "path_lengths": lambda x: A.path_lengths(Window(3), x(100)),
        "receptive_field": lambda x: A.receptive_field(Window(3), x(3), x(100)),
        "recurrence_cost": lambda x: A.recurrence_cost(x(100), x(64)),
        "spectral_gap": lambda x: A.spectral_gap(Full(), x(100)),
        "take_turns": lambda x: len(A.take_turns({"one": lambda: 1}, x(2))["one"]),
    },
    "training": {
        "learning_rate": lambda x: learning_rate(x(100), x(120), 1.0, x(90)),
        "train, steps": lambda x: trained(x, "steps"),
        "train, warmup": lambda x: trained(x, "warmup"),
        "train, seed": lambda x: trained(x, "seed"),
    },
}
CALLS = {f"{part}.{name}": call for part, calls in SIZES.items() for name, call in calls.items()}


def assert_equal(given: object, plain: object) -> None:
    assert type(given) is type(plain)
    if isinstance(plain, Tensor):
        torch.testing.assert_close(given, plain, rtol=0, atol=0, equal_nan=True)
    elif isinstance(plain, np.ndarray):
        assert (given == plain).all()
    elif isinstance(plain, dict):
        assert_equal(list(given.items()), list(plain.items()))
    elif is_dataclass(plain) and not isinstance(plain, type):
        assert_equal({f: getattr(given, f) for f in vars(given)}, vars(plain))
    elif isinstance(plain, list | tuple):
        assert len(given) == len(plain)
        for one, other in zip(given, plain, strict=True):
            assert_equal(one, other)
    else:
        assert given == plain


@pytest.mark.parametrize("kind", [np.uint8, np.int8, np.int64])
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_what_is_made_with_numpys_integers_is_what_pythons_make(call, kind):
    with np.errstate(all="raise"), seeded(0):
        given = call(kind)
    with seeded(0):
        plain = call(int)
    assert_equal(given, plain)


def with_sizes(part: str) -> Iterator[str]:
    """The public names of a package that take an integer, and the methods that do."""
    package = import_module(f"tinyattn.{part}")
    for name in package.__all__:
        it = getattr(package, name)
        if inspect.isclass(it) or inspect.isfunction(it):
            if takes_integers(it):
                yield name
            if inspect.isclass(it):
                methods = {k: m for k, m in vars(it).items() if inspect.isfunction(m)}
                own = {k for k in methods if not k.startswith("_")}
                yield from (f"{name}.{k}" for k in own if takes_integers(methods[k]))


def takes_integers(call: Callable) -> bool:
    kinds = [str(p.annotation) for p in inspect.signature(call).parameters.values()]
    return any(kind.startswith(("int", "tuple[int")) for kind in kinds)


@pytest.mark.parametrize("part", ["transformer", "families", "content", "analysis"])
def test_no_public_name_that_takes_a_size_is_left_out(part):
    asked = {name.split(",")[0] for name in SIZES[part]}
    results = {"Ratios"}  # what a measurement found, not what somebody asks for
    checks = {name for name in with_sizes(part) if name.endswith(".check")}  # of a layer's own
    assert set(with_sizes(part)) - results - checks <= asked


def bare_calls(source: str) -> list[int]:
    """Lines on which a check that returns Python's integers is called and what it returns lost."""
    return [
        node.lineno
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Call)
        and isinstance(node.value.func, ast.Name)
        and node.value.func.id in CHECKS
    ]


def test_what_a_check_returns_is_kept_everywhere():
    assert bare_calls("whole_numbers(n=3)\n(n,) = whole_numbers(n=3)\n") == [1]
    files = sorted(Path(tinyattn.__file__).parent.rglob("*.py"))
    lost = {str(file): bare_calls(file.read_text()) for file in files}
    assert {file: lines for file, lines in lost.items() if lines} == {}
