"""Convolution, pooling, and what else looks at windows of an image."""
