"""The Transformer, part by part, and the three models made of the parts."""

from tinyattn.transformer.attention import MultiHeadAttention
from tinyattn.transformer.axial import AxialPositions, AxialTransformer
from tinyattn.transformer.blocks import DecoderLayer, EncoderLayer, Residual
from tinyattn.transformer.cache import KVCache
from tinyattn.transformer.config import TransformerConfig
from tinyattn.transformer.etc import EtcPositions
from tinyattn.transformer.feedforward import FeedForward
from tinyattn.transformer.generate import generate, next_token
from tinyattn.transformer.longformer import LongformerAttention
from tinyattn.transformer.models import Decoder, Encoder, Seq2Seq
from tinyattn.transformer.positions import (
    Learned,
    Positions,
    Sinusoidal,
    sinusoidal_positions,
)
from tinyattn.transformer.relative import RoPE, Shaw, T5Bias
from tinyattn.transformer.star import StarTransformer
from tinyattn.transformer.tree import BPTransformer, EdgeTypes

__all__ = [
    "AxialPositions",
    "AxialTransformer",
    "BPTransformer",
    "Decoder",
    "DecoderLayer",
    "EdgeTypes",
    "Encoder",
    "EncoderLayer",
    "EtcPositions",
    "FeedForward",
    "KVCache",
    "Learned",
    "LongformerAttention",
    "MultiHeadAttention",
    "Positions",
    "Residual",
    "RoPE",
    "Seq2Seq",
    "Shaw",
    "Sinusoidal",
    "StarTransformer",
    "T5Bias",
    "TransformerConfig",
    "generate",
    "next_token",
    "sinusoidal_positions",
]
