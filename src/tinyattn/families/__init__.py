"""What else a layer may do with a sequence: attention's other families, and its rivals."""

from tinyattn.families.layers import Convolution, FullyConnected, Recurrence

__all__ = ["Convolution", "FullyConnected", "Recurrence"]
