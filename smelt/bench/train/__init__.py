"""The train suite: whole training steps against PyTorch and JAX."""
