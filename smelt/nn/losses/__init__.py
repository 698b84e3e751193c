"""Losses as functions, with the names and arguments of PyTorch's. Their module forms are in `smelt.nn`.

The mean over everything is the default of all: `reduction="sum"` adds up, `"none"` gives each loss by itself.
"""

import sys
from typing import TYPE_CHECKING

from smelt.names import door, understand
from smelt.nn.losses.classes import cross_entropy, multi_margin_loss, nll_loss
from smelt.nn.losses.ctc import ctc_loss
from smelt.nn.losses.distances import (
    cosine_embedding_loss,
    hinge_embedding_loss,
    margin_ranking_loss,
    triplet_margin_loss,
)
from smelt.nn.losses.likelihoods import (
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
    gaussian_nll_loss,
    kl_div,
    poisson_nll_loss,
    soft_margin_loss,
)
from smelt.nn.losses.regression import huber_loss, l1_loss, mse_loss, smooth_l1_loss

__all__ = [
    "cross_entropy",
    "nll_loss",
    "multi_margin_loss",
    "mse_loss",
    "l1_loss",
    "smooth_l1_loss",
    "huber_loss",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "soft_margin_loss",
    "kl_div",
    "poisson_nll_loss",
    "gaussian_nll_loss",
    "ctc_loss",
    "triplet_margin_loss",
    "margin_ranking_loss",
    "hinge_embedding_loss",
    "cosine_embedding_loss",
]

understand(sys.modules[__name__])
if not TYPE_CHECKING:
    __getattr__, __dir__ = door(__name__, __all__)
