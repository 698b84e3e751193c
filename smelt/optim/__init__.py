"""Optimizers: chains of small steps from gradients to updates."""

from smelt.optim.core import Optimizer, State, Step, chain
from smelt.optim.optimizers import SGD, Adam, AdamW
from smelt.optim.steps import AdamMoments, AddDecay, ClipNorm, Momentum

__all__ = [
    "SGD",
    "Adam",
    "AdamMoments",
    "AdamW",
    "AddDecay",
    "ClipNorm",
    "Momentum",
    "Optimizer",
    "State",
    "Step",
    "chain",
]
