"""Patterns: rules that say which keys a query may read."""

from tinyattn.patterns.base import Pattern
from tinyattn.patterns.positional import Causal, Full

__all__ = ["Causal", "Full", "Pattern"]
