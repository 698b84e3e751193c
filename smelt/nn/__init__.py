"""Neural networks: modules, layers and losses."""

from smelt.nn import losses
from smelt.nn.containers import ModuleDict, ModuleList, Sequential
from smelt.nn.criteria import (
    BCELoss,
    BCEWithLogitsLoss,
    CosineEmbeddingLoss,
    CrossEntropyLoss,
    CTCLoss,
    GaussianNLLLoss,
    HingeEmbeddingLoss,
    HuberLoss,
    KLDivLoss,
    L1Loss,
    MarginRankingLoss,
    MSELoss,
    MultiMarginLoss,
    NLLLoss,
    PoissonNLLLoss,
    SmoothL1Loss,
    SoftMarginLoss,
    TripletMarginLoss,
)
from smelt.nn.linear import Linear
from smelt.nn.module import Module

__all__ = [
    "BCELoss",
    "BCEWithLogitsLoss",
    "CTCLoss",
    "CosineEmbeddingLoss",
    "CrossEntropyLoss",
    "GaussianNLLLoss",
    "HingeEmbeddingLoss",
    "HuberLoss",
    "KLDivLoss",
    "L1Loss",
    "Linear",
    "MSELoss",
    "MarginRankingLoss",
    "Module",
    "ModuleDict",
    "ModuleList",
    "MultiMarginLoss",
    "NLLLoss",
    "PoissonNLLLoss",
    "Sequential",
    "SmoothL1Loss",
    "SoftMarginLoss",
    "TripletMarginLoss",
    "losses",
]
