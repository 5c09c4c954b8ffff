"""What patterns and layers cost, and how far they carry a signal."""

from tinyattn.analysis.crossover import Ratios, ratios_to_dense
from tinyattn.analysis.graphs import (
    adjacency,
    max_path_length,
    mixing_time,
    n_components,
    path_lengths,
    receptive_field,
    spectral_gap,
)

__all__ = [
    "Ratios",
    "adjacency",
    "max_path_length",
    "mixing_time",
    "n_components",
    "path_lengths",
    "ratios_to_dense",
    "receptive_field",
    "spectral_gap",
]
