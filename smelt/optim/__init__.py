"""Optimizers: chains of small steps from gradients to updates."""

from typing import TYPE_CHECKING

from smelt.names import door
from smelt.optim import schedules
from smelt.optim.averages import EMA, Averaged
from smelt.optim.core import Optimizer, Parameters, State, Step, chain
from smelt.optim.groups import Groups, groups
from smelt.optim.matrices import Average, FactoredSquares, Orthogonal
from smelt.optim.moments import AdamMoments, RootMeanSquare
from smelt.optim.optimizers import (
    LAMB,
    SGD,
    Adadelta,
    Adafactor,
    Adagrad,
    Adam,
    Adamax,
    AdamW,
    Lion,
    Muon,
    NAdam,
    RAdam,
    RMSprop,
    Rprop,
)
from smelt.optim.plateau import ReduceOnPlateau
from smelt.optim.precision import LossScale, Scaled
from smelt.optim.steps import AddDecay, ClipNorm, ClipValue, Momentum, TrustRatio
from smelt.optim.wrapping import Accumulate, Accumulated

__all__ = [
    "EMA",
    "LAMB",
    "SGD",
    "Accumulate",
    "Accumulated",
    "Adadelta",
    "Adafactor",
    "Adagrad",
    "Adam",
    "AdamMoments",
    "AdamW",
    "Adamax",
    "AddDecay",
    "Average",
    "Averaged",
    "ClipNorm",
    "ClipValue",
    "FactoredSquares",
    "Groups",
    "Lion",
    "LossScale",
    "Momentum",
    "Muon",
    "NAdam",
    "Optimizer",
    "Orthogonal",
    "Parameters",
    "RAdam",
    "RMSprop",
    "ReduceOnPlateau",
    "RootMeanSquare",
    "Rprop",
    "Scaled",
    "State",
    "Step",
    "TrustRatio",
    "chain",
    "groups",
    "schedules",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = door(__name__, __all__)
