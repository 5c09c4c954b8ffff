"""What else a layer may do with a sequence: attention's other families, and its rivals."""

from tinyattn.families.compress import Linformer, compressed_attention
from tinyattn.families.heads import (
    GroupedQueryAttention,
    grouped_attention,
    talking_heads_attention,
)
from tinyattn.families.layers import Convolution, FullyConnected, Recurrence
from tinyattn.families.linear import (
    LinearState,
    elu_features,
    linear_attention,
    linear_attention_weights,
)
from tinyattn.families.low_rank import nystrom_attention, pinv_by_products
from tinyattn.families.prior import gaussian_prior, prior_attention

__all__ = [
    "Convolution",
    "FullyConnected",
    "GroupedQueryAttention",
    "LinearState",
    "Linformer",
    "Recurrence",
    "compressed_attention",
    "elu_features",
    "gaussian_prior",
    "grouped_attention",
    "linear_attention",
    "linear_attention_weights",
    "nystrom_attention",
    "pinv_by_products",
    "prior_attention",
    "talking_heads_attention",
]
