"""Changes of the package that change nothing, and why no test can see them.

tools/mutants.py tries small changes and lists those that the tests did not see. Each is either a
test that is missing or one of these.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Equivalent:
    """A line of a module, what was made of it, and why both do the same."""

    file: str
    old: str
    new: str
    why: str


ZIPPED = "both are of one length, by the lines before"
FROM_THE_LAST = (
    "footprints are compared of runs of one length and step, whose last is then as far on"
)
LAST_AXIS = "the first axis is the last one too"
PROBED = "growth is the same at other lengths and sizes: these are only where it is counted"
ONE_ROW = "there is one row, so that the last is the first"
STATIC = "PyTorch calls forward and backward through the class, where a plain function is the same"
NO_PRODUCTS = (
    "the products inside are of sparse matrices and bags, which autocast leaves as they are"
)
PACE = "changes how much is done at a time and so the pace, and no result"

EQUIVALENTS = [
    Equivalent(
        "patterns/base.py",
        "@dataclass(frozen=True, repr=False)",
        "@dataclass(frozen=True, repr=True)",
        "a class that writes its own __repr__ keeps it",
    ),
    Equivalent(
        "exercises/museum/base.py",
        "torch.manual_seed(0)",
        "torch.manual_seed( 1)",
        "that each function gets the same draws matters, and not which",
    ),
    Equivalent(
        "show/settings.py",
        "names = dict(zip(BY_KEY[key].parameters, values, strict=True))",
        "names = dict(zip(BY_KEY[key].parameters, values, strict=False))",
        "a setting whose atom has too few or too many numbers is refused when it is made",
    ),
    Equivalent(
        "show/settings.py",
        "mask = mask & ~unpack(self.erased, self.n)",
        "mask = mask * ~unpack(self.erased, self.n)",
        "a product of two tensors of bool is their conjunction",
    ),
    Equivalent(
        "show/widgets.py",
        "f\"{n} can be {', '.join(v)}\" for n, v in zip(self.names, self.labels, strict=True)",
        "f\"{n} can be {', '.join(v)}\" for n, v in zip(self.names, self.labels, strict=False)",
        "every name has its labels from the start",
    ),
    Equivalent(
        "analysis/complexity.py",
        "for name, size in zip(sizes, found, strict=True):",
        "for name, size in zip(sizes, found, strict=False):",
        ZIPPED,
    ),
    Equivalent(
        "analysis/graphs.py",
        'raise ValueError(f"a spectral gap needs two tokens or more, got n={walk.shape[0]}")',
        'raise ValueError(f"a spectral gap needs two tokens or more, got n={walk.shape[ -1]}")',
        "the matrix is square",
    ),
    Equivalent(
        "families/linear.py",
        "return (top - later).clamp(max=0.0).exp()",
        "return (top - later).clamp(max= 1.0).exp()",
        "what is above 0 belongs to later keys, which tril leaves out",
    ),
    Equivalent(
        "families/low_rank.py",
        "member = (segment[:, None, :] == torch.arange(n_landmarks, device=real.device)[:, None]) & (",
        "member = (segment[:, None, :] == torch.arange(n_landmarks, device=real.device)[:, None]) * (",
        "a product of two tensors of bool is their conjunction",
    ),
    Equivalent(
        "patterns/grid.py",
        "@lru_cache(maxsize=4096)",
        "",
        "answers are kept, which " + PACE,
    ),
    Equivalent(
        "patterns/positional.py",
        "apart = keys[0] - queries[-1] > far or queries[0] - keys[-1] > far",
        "apart = keys[0] - queries[-1] > far and queries[0] - keys[-1] > far",
        "masks of nothing are told apart by their distance then, which " + PACE,
    ),
    Equivalent(
        "patterns/positional.py",
        "return clipped(0, queries[-1] + 1, n_k)",
        "return clipped( -1, queries[-1] + 1, n_k)",
        "what lies before the first key is cut off",
    ),
    Equivalent(
        "training.py",
        'print(f"\\r\\x1b[K{label} [{bar}] {done}/{total} {note}", end="", file=sys.stderr, flush=True)',
        'print(f"\\r\\x1b[K{label} [{bar}] {done}/{total} {note}", end="", file=sys.stderr, flush=False)',
        "when the line appears, and not what it says",
    ),
    Equivalent(
        "transformer/cache.py",
        "if self.k is not None and self.v is not None and first > 0:",
        "if self.k is not None and self.v is not None and first >= 0:",
        "where nothing is to be dropped, what is kept is copied",
    ),
    Equivalent(
        "patterns/tree.py",
        "shared = size.bit_length() - 1  # levels whose spans are at most as long as a group",
        "shared = size.bit_length() + 1  # levels whose spans are at most as long as a group",
        "longer spans join the group that they end in, which " + PACE,
    ),
    Equivalent(
        "patterns/random.py",
        "return whole_blocks(self.block_size, n) if self.block_size > 1 else []",
        "return whole_blocks(self.block_size, n) if self.block_size > 0 else []",
        "a border after every token " + PACE,
    ),
    Equivalent(
        "patterns/random.py",
        "return self._keys[queries[0] // self.block_size : queries[-1] // self.block_size + 1]",
        "return self._keys[queries[0] // self.block_size : queries[-1] // self.block_size + 2]",
        "a reach may cover keys that nobody reads, which " + PACE,
    ),
    Equivalent(
        "patterns/random.py",
        "for row, column in (some.T for some in hits.split(max(1, 2**20 // len(inside) ** 2))):",
        "for row, column in (some.T for some in hits.split(max(1, 2^20 // len(inside) ** 2))):",
        PACE,
    ),
    Equivalent(
        "dense.py",
        "if q.shape[-1] != k.shape[-1] or q.shape[-1] == 0:",
        "if q.shape[-1] != k.shape[-1] or q.shape[-1] <= 0:",
        "no axis is shorter than 0",
    ),
    Equivalent(
        "analysis/graphs.py",
        "DISTANCES_AT_ONCE = 2**22  # 32 MB of them",
        "DISTANCES_AT_ONCE = 2+22  # 32 MB of them",
        PACE,
    ),
    Equivalent(
        "show/pixels.py",
        "share = torch.where(seen == 0, 0.75, 0.55)",
        "share = torch.where(seen <= 0, 0.75, 0.55)",
        "layers are counted from 0 on",
    ),
    Equivalent(
        "show/pixels.py",
        "TINTS = ((176, 32, 32), (217, 130, 0), (20, 104, 176))  # of what 1, 2, 3 layers see first",
        "TINTS = ((176, 32, 32), (217, 130, 0), (20, 104, 175))  # of what 1, 2, 3 layers see first",
        "a step of 256 in one colour; fewer colours than that are kept",
    ),
    Equivalent(
        "show/figures.py",
        'LINE_STYLES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (8, 3)), (0, (2, 1)))',
        'LINE_STYLES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (8, 3)), (0, ( 3, 1)))',
        "a line of other dashes is told apart from the other lines as well",
    ),
    Equivalent(
        "show/figures.py",
        'LINE_STYLES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (8, 3)), (0, (2, 1)))',
        'LINE_STYLES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 2)), (0, (8, 3)), (0, (2, 1)))',
        "a line of other dashes is told apart from the other lines as well",
    ),
    Equivalent(
        "show/figures.py",
        'LINE_STYLES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (8, 3)), (0, (2, 1)))',
        'LINE_STYLES = ("-", "--", "-.", ":", ( 1, (5, 1, 1, 1, 1, 1)), (0, (8, 3)), (0, (2, 1)))',
        "a line of other dashes is told apart from the other lines as well",
    ),
    Equivalent(
        "show/figures.py",
        '"lines.linewidth": 1.8,',
        '"lines.linewidth": 2.8,',
        "a matter of looks, and everything can be read",
    ),
    Equivalent(
        "show/figures.py",
        '"legend.frameon": False,',
        '"legend.frameon": True,',
        "a matter of looks, and everything can be read",
    ),
    Equivalent(
        "show/draw.py",
        "width = side * shape[1] + left + (0.8 if bar else 0.1)",
        "width = side * shape[1] + left + ( 1.8 if bar else 0.1)",
        "a wider picture shows the same",
    ),
    Equivalent(
        "families/linear.py",
        "return sums[..., :-1] / total.masked_fill(total == 0, 1.0)",
        "return sums[..., :-1] / total.masked_fill(total == 0, 2.0)",
        "weights that add to zero are zero, and so are their sums over values",
    ),
    Equivalent(
        "families/low_rank.py",
        "one = torch.eye(a.shape[-1], dtype=a.dtype, device=a.device)",
        "one = torch.eye(a.shape[~1], dtype=a.dtype, device=a.device)",
        "the matrix is square",
    ),
    Equivalent(
        "families/low_rank.py",
        "n_real = real.sum(dim=1, keepdim=True).clamp(min=1)",
        "n_real = real.sum(dim=1, keepdim=True).clamp(min= 2)",
        "a lone token is in the first segment, by whatever its place, 0, is divided",
    ),
    Equivalent(
        "patterns/random.py",
        "for runs in zip_longest(*reaches, fillvalue=range(0)):  # the first run of each row, then …",
        "for runs in zip_longest(*reaches, fillvalue=range( -1)):  # the first run of each row, then …",
        "no block begins before a run that ends below 0 either",
    ),
    Equivalent(
        "content/kmeans.py",
        "def _apply(self, fn: Callable, recurse: bool = True) -> nn.Module:",
        "def _apply(self, fn: Callable, recurse: bool = False) -> nn.Module:",
        "a router of centroids holds no other modules",
    ),
    Equivalent(
        "content/hashing.py",
        "HASHED_AT_ONCE = 2**17  # numbers, so that they stay in the processor's cache",
        "HASHED_AT_ONCE = 2+17  # numbers, so that they stay in the processor's cache",
        PACE,
    ),
    Equivalent(
        "content/sac.py",
        "self._leader[0].check(n_heads, d_head)",
        "self._leader[ -1].check(n_heads, d_head)",
        "there is one leader, so that the last is the first",
    ),
    Equivalent(
        "analysis/ledger.py",
        'verb = "is" if len(off) == 1 else "are"',
        'verb = "is" if len(off) <= 1 else "are"',
        "it is asked only where at least one claim is off",
    ),
    Equivalent(
        "products.py",
        "FEW = 3  # pieces; more are copied together, since each product of short ones costs a call",
        "FEW = 2  # pieces; more are copied together, since each product of short ones costs a call",
        PACE,
    ),
    Equivalent(
        "repeats.py",
        "if self.apart == 0 or self.disjoint == len(self.run):",
        "if self.apart < 0 or self.disjoint == len(self.run):",
        "copies that are 0 apart count as disjoint already; the words say so to the reader",
    ),
    Equivalent(
        "repeats.py",
        "if self.apart == 0 or self.disjoint == len(self.run):",
        "if self.apart == 0 or self.disjoint >= len(self.run):",
        "no more places are disjoint than there are",
    ),
    Equivalent(
        "repeats.py",
        "if group.keys.index is not None or len(queries) != 1 or len(keys) > MOST_RUNS:",
        "if group.keys.index is not None or len(queries) > 1 or len(keys) > MOST_RUNS:",
        "a group has queries, and these are runs",
    ),
    Equivalent(
        "repeats.py",
        "self.of(x)[0].addmm_(rows, whole.flatten(0, 1), alpha=alpha)",
        "self.of(x)[ -1].addmm_(rows, whole.flatten(0, 1), alpha=alpha)",
        "copies that are 0 apart are the same memory",
    ),
    Equivalent(
        "engine.py",
        "CACHED_SCORES = 2**19  # scores computed at a time, so that they stay in the processor's cache",
        "CACHED_SCORES = 2^19  # scores computed at a time, so that they stay in the processor's cache",
        "one head at a time is computed then, which " + PACE,
    ),
    Equivalent(
        "engine.py",
        "if self.flat.numel() < math.prod(shape):",
        "if self.flat.numel() <= math.prod(shape):",
        "memory of just the right size is taken anew, which " + PACE,
    ),
    Equivalent("content/block_pairs.py", "@staticmethod", "", STATIC),
    Equivalent("edge_list.py", "@staticmethod", "", STATIC),
    Equivalent(
        "edge_list.py",
        "@dataclass(frozen=True)",
        "@dataclass(frozen=False)",
        "nothing writes to it; frozen is a promise to whoever reads the code",
    ),
    Equivalent(
        "edge_list.py",
        "EDGES_PAY = 10  # pairs of groups, which are products of matrices, that cost what one edge does",
        "EDGES_PAY = 9  # pairs of groups, which are products of matrices, that cost what one edge does",
        "lists and groups compute the same; which of them " + PACE,
    ),
    Equivalent(
        "edge_list.py",
        "return scores.softmax(dim=-1).masked_fill_(empty, 0.0)",
        "return scores.softmax(dim=1).masked_fill_(empty, 0.0)",
        "scores of one head have two axes, so that the second is the last",
    ),
    Equivalent(
        "edge_list.py",
        "with torch.autocast(q.device.type, enabled=False):",
        "with torch.autocast(q.device.type, enabled=True):",
        NO_PRODUCTS,
    ),
    Equivalent(
        "content/chunks.py",
        "narrow = torch.int16 if widest < 2**16 - 2 * size else torch.int32",
        "narrow = torch.int16 if widest < 2**16 - 1 * size else torch.int32",
        "numbers that go round must not come nearer than m: m is enough, and 2 m more than that",
    ),
    Equivalent(
        "content/clusters.py",
        "@dataclass(frozen=True)",
        "@dataclass(frozen=False)",
        "nothing writes to it; frozen is a promise to whoever reads the code",
    ),
    Equivalent(
        "content/clusters.py",
        "start, most = 0, (0, 0)",
        "start, most = 0, ( 1, 0)",
        "clusters without a query or a key were left out, so that the first has at least one",
    ),
    Equivalent(
        "content/clusters.py",
        "return cls(tokens, count.cumsum(dim=0) - count, count)",
        "return cls(tokens, count.cumsum(dim= -1) - count, count)",
        LAST_AXIS,
    ),
    Equivalent(
        "dense.py",
        "weights = scores.masked_fill(nothing, 0.0).softmax(dim=-1, dtype=wide)",
        "weights = scores.masked_fill(nothing, -1.0).softmax(dim=-1, dtype=wide)",
        "any finite number does: rows without an allowed key are set to 0 in the next line",
    ),
    Equivalent(
        "engine.py",
        "@staticmethod",
        "",
        STATIC,
    ),
    Equivalent(
        "engine.py",
        "CACHED_SCORES = 2**19  # scores computed at a time, so that they stay in the processor's cache",
        "CACHED_SCORES = 2/19  # scores computed at a time, so that they stay in the processor's cache",
        "one head at a time is computed then, which " + PACE,
    ),
    Equivalent(
        "groups.py",
        "return [slice(int(places[a]), int(places[b]) + 1) for a, b in zip(first, last, strict=True)]",
        "return [slice(int(places[a]), int(places[b]) + 1) for a, b in zip(first, last, strict=False)]",
        ZIPPED,
    ),
    Equivalent(
        "groups.py",
        "ASKED_AT_ONCE = 2**20  # pairs; a rule's numbers for them take megabytes, whatever n is",
        "ASKED_AT_ONCE = 2** 19  # pairs; a rule's numbers for them take megabytes, whatever n is",
        PACE,
    ),
    Equivalent(
        "groups.py",
        "WIDE_GAP = 64  # columns without anything forbidden that are worth two masks instead of one",
        "WIDE_GAP = 65  # columns without anything forbidden that are worth two masks instead of one",
        "either way the masks forbid the same pairs; 64 is a choice, not a rule",
    ),
    Equivalent(
        "groups.py",
        "if len(reach) <= MAX_RUNS or len(strips(reach)) <= MAX_RUNS:",
        "if len(reach) < MAX_RUNS or len(strips(reach)) <= MAX_RUNS:",
        "16 runs are sliced or gathered, and are the same keys",
    ),
    Equivalent(
        "groups.py",
        "return reached[0] if len(reached) == 1 else merged([keys for some in reached for keys in some])",
        "return reached[0] if len(reached) == 0 else merged([keys for some in reached for keys in some])",
        "merging what is merged already gives it back: the first case only saves the work",
    ),
    Equivalent(
        "groups.py",
        "return self.n_pairs - sum(int((mask < 0).sum()) for _, mask in self.masks)",
        "return self.n_pairs - sum(int((mask < -1).sum()) for _, mask in self.masks)",
        "masks hold 0 and -inf and nothing between",
    ),
    Equivalent(
        "groups.py",
        "if len(queries) == 1:",
        "if len(queries) <= 1:",
        "queries are at least one run",
    ),
    Equivalent(
        "patterns/flex.py",
        "pattern.mask(0)  # whatever is drawn at random is drawn now: not while FlexAttention traces",
        "pattern.mask( 1)  # whatever is drawn at random is drawn now: not while FlexAttention traces",
        "whatever is asked first draws all that is random",
    ),
    Equivalent(
        "patterns/positional.py",
        "return keys[0] - queries[0], queries.step, keys.step",
        "return keys[0] - queries[ -1], queries.step, keys.step",
        FROM_THE_LAST,
    ),
    Equivalent(
        "patterns/positional.py",
        "return queries[0] % size, *_offset(queries, keys)",
        "return queries[ -1] % size, *_offset(queries, keys)",
        FROM_THE_LAST,
    ),
    Equivalent(
        "transformer/attention.py",
        "if self.pattern is not None or type(self.positions) is not Positions:",
        "if self.pattern is not None or type(self.positions) != Positions:",
        "a class is equal to itself alone",
    ),
    Equivalent(
        "transformer/attention.py",
        "rule.check(int(j[-1]) + 1 if len(j) else 0)",
        "rule.check(int(j[-1]) + 1 if len(j) else 1)",
        "no rule is made for less than one token",
    ),
    Equivalent(
        "transformer/generate.py",
        "kept, where = logits.topk(top_k, dim=-1)",
        "kept, where = logits.topk(top_k, dim=+1)",
        "logits have two axes, so that the second is the last",
    ),
    Equivalent(
        "content/lsh.py",
        "return min(size, max(8, min(math.ceil(size / 4), math.ceil(n / (2 * n_buckets)))))",
        "return min(size, max(8, min(math.ceil(size / 3), math.ceil(n / (2 * n_buckets)))))",
        "changes how many places of nobody a short chunk computes, and no result",
    ),
    Equivalent(
        "content/membership.py",
        "near /= vectors.norm(dim=-1).clamp_(min=torch.finfo(wide).tiny)",
        "near /= vectors.norm(dim=+1).clamp_(min=torch.finfo(wide).tiny)",
        "the vectors have two axes, so that the second is the last",
    ),
    Equivalent(
        "content/permutations.py",
        "order = sort.argmax(dim=-1).where(sort.sum(dim=-1) > 0, own)",
        "order = sort.argmax(dim=1).where(sort.sum(dim=-1) > 0, own)",
        "the matrix has two axes, so that the second is the last",
    ),
    Equivalent(
        "content/routing.py",
        'if membership == "argmax":',
        'if membership <= "argmax":',
        "the only other word is balanced, which comes later in the alphabet",
    ),
    Equivalent(
        "content/sac.py",
        "generator.manual_seed((self.seed * 1_000_003 + int(self.n_updates)) % 2**64)",
        "generator.manual_seed((self.seed * 1_000_003 + int(self.n_updates)) % 2** 63)",
        "the generator of the processor takes the last 32 bits of a seed, which are the same",
    ),
    Equivalent(
        "patterns/global_tokens.py",
        'in_int64("g, counted from 1,", max(g, default=0) + 1)',
        'in_int64("g, counted from 1,", max(g, default= 1) + 1)',
        "where no position is given, the one that stands for them is not too large",
    ),
    Equivalent(
        "transformer/longformer.py",
        "pattern = Window(self.w) | Global(tuple(chosen), reads=False)",
        "pattern = Window(self.w) | Global(tuple(chosen), reads=True)",
        "rows of global tokens are computed again, with their own projections",
    ),
    Equivalent(
        "transformer/tree.py",
        "if q.shape[-1] != self.r.shape[-1]:",
        "if q.shape[-1] != self.r.shape[1]:",
        "types of edges and their width are two axes, so that the second is the last",
    ),
    Equivalent(
        "exercises/base.py",
        "pairs = zip(got, wanted, strict=True)",
        "pairs = zip(got, wanted, strict=False)",
        ZIPPED,
    ),
    Equivalent(
        "transformer/star.py",
        "if e.shape[1] == 0:",
        "if e.shape[1] <= 0:",
        "no axis is shorter than 0",
    ),
    Equivalent(
        "transformer/etc.py",
        "stops = self.n_global + lengths.cumsum(0)",
        "stops = self.n_global + lengths.cumsum( -1)",
        LAST_AXIS,
    ),
    Equivalent(
        "transformer/models.py",
        "for layer, kept in zip(self.layers, caches, strict=True):",
        "for layer, kept in zip(self.layers, caches, strict=False):",
        ZIPPED,
    ),
    Equivalent(
        "transformer/positions.py",
        "def from_config(cls, config: TransformerConfig, *, bidirectional: bool = True) -> Learned:",
        "def from_config(cls, config: TransformerConfig, *, bidirectional: bool = False) -> Learned:",
        "a table of positions is the same for both directions and for one",
    ),
    Equivalent(
        "transformer/star.py",
        "modules = zip(self.around, self.relay, self.norm_tokens, self.norm_relay, strict=True)",
        "modules = zip(self.around, self.relay, self.norm_tokens, self.norm_relay, strict=False)",
        "each holds one module for each layer, by their construction",
    ),
    Equivalent(
        "analysis/claims.py",
        "LONG = (2**12, 2**13, 2**14, 2**15)  # where pairs are counted one block after the other",
        "LONG = (2**12, 2**13, 2** 13, 2**15)  # where pairs are counted one block after the other",
        PROBED,
    ),
    Equivalent(
        "analysis/claims.py",
        "LONG = (2**12, 2**13, 2**14, 2**15)  # where pairs are counted one block after the other",
        "LONG = (2** 13, 2**13, 2**14, 2**15)  # where pairs are counted one block after the other",
        PROBED,
    ),
    Equivalent(
        "analysis/claims.py",
        "LONG = (2**12, 2**13, 2**14, 2**15)  # where pairs are counted one block after the other",
        "LONG = (2**12, 3**13, 2**14, 2**15)  # where pairs are counted one block after the other",
        PROBED,
    ),
    Equivalent(
        "analysis/claims.py",
        "LONG = (2**12, 2**13, 2**14, 2**15)  # where pairs are counted one block after the other",
        "LONG = (2**12, 2**13, 2**14, 2** 16)  # where pairs are counted one block after the other",
        PROBED,
    ),
    Equivalent(
        "analysis/claims.py",
        "LONG = (2**12, 2**13, 2**14, 2**15)  # where pairs are counted one block after the other",
        "LONG = (2**12, 2** 14, 2**14, 2**15)  # where pairs are counted one block after the other",
        PROBED,
    ),
    Equivalent(
        "analysis/claims.py",
        'count("pairs of a window, kept", 1, lambda n: kept_pairs(Window(16), n), LONG, **where),',
        'count("pairs of a window, kept", 1, lambda n: kept_pairs(Window( 15), n), LONG, **where),',
        PROBED,
    ),
    Equivalent(
        "analysis/claims.py",
        'count("attention layer, parameters", 2, lambda d: attention_cost(1, d).parameters, **in_width),',
        'count("attention layer, parameters", 2, lambda d: attention_cost( 2, d).parameters, **in_width),',
        "the parameters of a layer are the same at every length",
    ),
    Equivalent(
        "analysis/layer_claims.py",
        'count("recurrence, longest path", 1, _path(Window(1)), SHORT, **where),',
        'count("recurrence, longest path", 1, _path(Window( 2)), SHORT, **where),',
        PROBED,
    ),
    Equivalent(
        "analysis/layer_claims.py",
        "POWERS = (4**3, 4**4, 4**5, 4**6)  # of the kernel's width",
        "POWERS = (4** 4, 4**4, 4**5, 4**6)  # of the kernel's width",
        PROBED,
    ),
    Equivalent(
        "analysis/layer_claims.py",
        'count("restricted attention, pairs", 1, lambda n: kept_pairs(Window(KERNEL), n), (2**12, 2**13, 2**14), **where),',
        'count("restricted attention, pairs", 1, lambda n: kept_pairs(Window(KERNEL), n), (2** 11, 2**13, 2**14), **where),',
        PROBED,
    ),
    Equivalent(
        "analysis/pattern_claims.py",
        'count("window, longest path", 1, _path(lambda n: Window(4)), SHORT, tolerance=0.05, **atoms),',
        'count("window, longest path", 1, _path(lambda n: Window( 5)), SHORT, tolerance=0.05, **atoms),',
        PROBED,
    ),
    Equivalent(
        "analysis/pattern_claims.py",
        "LONG = (2**9, 2**10, 2**11)  # where pairs are counted",
        "LONG = (2**9, 2**10, 2** 12)  # where pairs are counted",
        PROBED,
    ),
    Equivalent(
        "analysis/pattern_claims.py",
        "SQUARE = (2**8, 2**10, 2**12)  # where a root is a whole number",
        "SQUARE = (2** 9, 2**10, 2**12)  # where a root is a whole number",
        PROBED,
    ),
    Equivalent(
        "analysis/pattern_claims.py",
        'count("strided, fixed stride, pairs", 2, _pairs(lambda n: sparse_strided(4)), LONG, **unions),',
        'count("strided, fixed stride, pairs", 2, _pairs(lambda n: sparse_strided( 5)), LONG, **unions),',
        PROBED,
    ),
    Equivalent(
        "analysis/support.py",
        "return (slopes != 0).any(dim=5).any(dim=2)[0, :, 0]  # (1, n_out, width, 1, n, d_model)",
        "return (slopes != 0).any(dim=5).any(dim=2)[ -1, :, 0]  # (1, n_out, width, 1, n, d_model)",
        "one sequence was asked for, and the last is the first",
    ),
    Equivalent(
        "analysis/graphs.py",
        "lengths = csgraph.shortest_path(reads, unweighted=True, indices=list(sources))",
        "lengths = csgraph.shortest_path(reads, unweighted=False, indices=list(sources))",
        "every edge has the length 1",
    ),
    Equivalent(
        "analysis/graphs.py",
        "at_once = max(1, DISTANCES_AT_ONCE // max(1, n))",
        "at_once = max(1, DISTANCES_AT_ONCE // max( 2, n))",
        PACE,
    ),
    Equivalent(
        "content/edges.py",
        "total = terms.new_zeros(b * h * n).index_add(0, rows, terms)",
        "total = terms.new_zeros(b * h * n).index_add( -1, rows, terms)",
        LAST_AXIS,
    ),
    Equivalent(
        "content/membership.py",
        "row.copy_(first_largest(near[None])[0])",
        "row.copy_(first_largest(near[None])[ -1])",
        ONE_ROW,
    ),
    Equivalent(
        "content/membership.py",
        "return x.topk(size, dim=-1, sorted=False).indices",
        "return x.topk(size, dim=-1, sorted=True).indices",
        "no order is promised",
    ),
    Equivalent(
        "content/membership.py",
        "with torch.no_grad(), torch.autocast(x.device.type, enabled=False):",
        "with torch.no_grad(), torch.autocast(x.device.type, enabled=True):",
        "products that are written into a given tensor are not cast anyway",
    ),
    Equivalent(
        "content/membership.py",
        "return x.topk(size, dim=-1, sorted=False).indices",
        "return x.topk(size, dim=1, sorted=False).indices",
        "the rows are a matrix, whose second axis is the last",
    ),
    Equivalent(
        "content/membership.py",
        "best = strands.amax(dim=-2).topk(size, dim=-1, sorted=False).indices  # (rows, size)",
        "best = strands.amax(dim=-2).topk(size, dim=+1, sorted=False).indices  # (rows, size)",
        "the rows are a matrix, whose second axis is the last",
    ),
    Equivalent(
        "ngram.py",
        "total = np.where(seen, level.total[parent], 0)",
        "total = np.where(seen, level.total[parent], -1)",
        "neither is above 0, and that alone is asked",
    ),
    Equivalent(
        "exercises/pictures.py",
        "f\"{max(abs(a - b) for a, b in zip(wanted['y'], got['y'], strict=True)):.3g}.\",",
        "f\"{max(abs(a - b) for a, b in zip(wanted['y'], got['y'], strict=False)):.3g}.\",",
        "curves that are not as long as their x cannot be drawn, and this comes after",
    ),
    Equivalent(
        "exercises/pictures.py",
        "fig, axes = plt.subplots(1, 2, figsize=(6, 3))",
        "fig, axes = plt.subplots(1, 2, figsize=( 5, 3))",
        "the two masks are as well told apart on a narrower picture",
    ),
    Equivalent(
        "show/figures.py",
        'LINE_STYLES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (8, 3)), (0, (2, 1)))',
        'LINE_STYLES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), ( 1, (8, 3)))',
        "a line of other dashes is told apart from the other lines as well",
    ),
    Equivalent(
        "show/figures.py",
        'LINE_STYLES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (8, 3)), (0, (2, 1)))',
        'LINE_STYLES = ("-", "--", "-.", ":", (0, ( 6, 1, 1, 1, 1, 1)), (0, (8, 3)), (0, (2, 1)))',
        "a line of other dashes is told apart from the other lines as well",
    ),
    Equivalent(
        "show/figures.py",
        'LINE_STYLES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (8, 3)), (0, (2, 1)))',
        'LINE_STYLES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (8, 4)), (0, (2, 1)))',
        "a line of other dashes is told apart from the other lines as well",
    ),
    Equivalent(
        "exercises/run.py",
        'if verdict.state == "open":',
        'if verdict.state <= "open":',
        "of the words for a state, open comes first",
    ),
    Equivalent(
        "content/router.py",
        "mask = mask & key_padding[:, None, None, :]",
        "mask = mask * key_padding[:, None, None, :]",
        "the product of two bools is true where both are",
    ),
    Equivalent(
        "exercises/museum/base.py",
        "torch.manual_seed(0)",
        "torch.manual_seed( -1)",
        "any seed makes the draws of all functions the same",
    ),
    Equivalent(
        "show/palette.py",
        "@lru_cache(maxsize=64)",
        "@lru_cache(maxsize= 63)",
        "one mask fewer is kept, which changes the pace, and no result",
    ),
    Equivalent(
        "show/widgets.py",
        "def __init_subclass__(cls, *, module: str | None = None, **kwargs: object) -> None:",
        "def __init_subclass__(cls, /, module: str | None = None, **kwargs: object) -> None:",
        "what stands in a class statement behind its bases comes by name only",
    ),
    Equivalent(
        "show/widgets.py",
        "chosen = zip(self._values.items(), place, strict=True)",
        "chosen = zip(self._values.items(), place, strict=False)",
        "a place is a product of all values, or an index that was checked to be one of them",
    ),
]
