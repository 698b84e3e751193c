"""Functions that move elements, put tensors together, and pad them."""
