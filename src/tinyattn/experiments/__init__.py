"""The trained models of the book: the same code in the chapters, in `make results`, in the tests."""
