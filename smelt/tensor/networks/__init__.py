"""What networks are made of: nonlinearities, normalization, attention."""
