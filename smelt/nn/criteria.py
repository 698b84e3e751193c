"""Losses as modules: the functions of `smelt.nn.losses` with their options kept."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, ClassVar

from smelt.errors import ArgumentError
from smelt.nn import losses
from smelt.nn.losses.checks import reduction_of
from smelt.nn.module import Module
from smelt.nn.sizes import refuse_tensors
from smelt.tensor import Tensor


class Loss(Module):
    """The base of losses: a function of tensors and its options. Weights are buffers."""

    function: ClassVar[Callable[..., Tensor]]
    options: ClassVar[inspect.Signature]
    inputs: ClassVar[tuple[str, ...]]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        name = type(self).__name__
        try:
            bound = self.options.bind(*args, **kwargs)
        except TypeError as error:
            refuse_tensors(name, args)
            raise ArgumentError(f"{name}: {error}", rule=f"it is called as {name}{self.options}.") from None
        refuse_tensors(name, [value for word, value in bound.arguments.items() if word not in self.buffer_names])
        bound.apply_defaults()
        vars(self).update(bound.arguments)
        reduction_of(bound.arguments["reduction"], name, ("batchmean",) if name == "KLDivLoss" else ())

    def __call__(self, *tensors: Any) -> Tensor:
        if len(tensors) != len(self.inputs):
            raise ArgumentError(
                f"{type(self).__name__}: called with {len(tensors)} tensors", rule=f"it takes {', '.join(self.inputs)}."
            )
        kept = vars(self)
        return type(self).function(*tensors, **{option: kept[option] for option in self.options.parameters})


def _module(name: str, function: Callable[..., Tensor], count: int = 2) -> type[Loss]:
    """A module of a function whose first `count` arguments are tensors of the call."""
    parameters = list(inspect.signature(function).parameters.values())
    first = (function.__doc__ or "").split("\n\n")[0].strip()
    body = {
        "function": staticmethod(function),
        "options": inspect.Signature(parameters[count:]),
        "inputs": tuple(parameter.name for parameter in parameters[:count]),
        "buffer_names": tuple(p.name for p in parameters[count:] if p.name in ("weight", "pos_weight")),
        "__doc__": f"{first}\n\nSee `smelt.nn.losses.{function.__name__}`.",
        "__module__": __name__,
        "__signature__": inspect.Signature(parameters[count:]),
    }
    return type(name, (Loss,), body)


CrossEntropyLoss = _module("CrossEntropyLoss", losses.cross_entropy)
NLLLoss = _module("NLLLoss", losses.nll_loss)
MultiMarginLoss = _module("MultiMarginLoss", losses.multi_margin_loss)
MSELoss = _module("MSELoss", losses.mse_loss)
L1Loss = _module("L1Loss", losses.l1_loss)
SmoothL1Loss = _module("SmoothL1Loss", losses.smooth_l1_loss)
HuberLoss = _module("HuberLoss", losses.huber_loss)
BCELoss = _module("BCELoss", losses.binary_cross_entropy)
BCEWithLogitsLoss = _module("BCEWithLogitsLoss", losses.binary_cross_entropy_with_logits)
SoftMarginLoss = _module("SoftMarginLoss", losses.soft_margin_loss)
KLDivLoss = _module("KLDivLoss", losses.kl_div)
PoissonNLLLoss = _module("PoissonNLLLoss", losses.poisson_nll_loss)
GaussianNLLLoss = _module("GaussianNLLLoss", losses.gaussian_nll_loss, 3)
CTCLoss = _module("CTCLoss", losses.ctc_loss, 4)
TripletMarginLoss = _module("TripletMarginLoss", losses.triplet_margin_loss, 3)
MarginRankingLoss = _module("MarginRankingLoss", losses.margin_ranking_loss, 3)
HingeEmbeddingLoss = _module("HingeEmbeddingLoss", losses.hinge_embedding_loss)
CosineEmbeddingLoss = _module("CosineEmbeddingLoss", losses.cosine_embedding_loss, 3)
