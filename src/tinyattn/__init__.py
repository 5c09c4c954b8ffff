"""tinyattn: the Transformer and its sparse relatives, written to be read next to the book."""

from tinyattn.dense import attention, attention_weights
from tinyattn.engine import sparse_attention
from tinyattn.transformer.attention import MultiHeadAttention

__version__ = "0.1.0"

__all__ = [
    "MultiHeadAttention",
    "__version__",
    "attention",
    "attention_weights",
    "sparse_attention",
]
