"""Time and memory of tinyattn beside dense attention and other libraries: `python -m benchmarks`."""
