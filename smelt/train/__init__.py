"""What training loops need besides modules and optimizers: a progress bar, metrics, logs, pictures and checkpoints."""

import sys
from typing import TYPE_CHECKING

from smelt.names import door, understand
from smelt.train.checkpoints import Checkpoint, Restored
from smelt.train.loggers import JSONLogger, Logger, TensorBoardLogger
from smelt.train.metrics import F1, Accuracy, ConfusionMatrix, Mean, Metric, Precision, Recall, TopK
from smelt.train.pictures import image_grid, plot
from smelt.train.progress import Progress, progress

__all__ = [
    "Accuracy",
    "Checkpoint",
    "ConfusionMatrix",
    "F1",
    "JSONLogger",
    "Logger",
    "Mean",
    "Metric",
    "Precision",
    "Progress",
    "Recall",
    "Restored",
    "TensorBoardLogger",
    "TopK",
    "image_grid",
    "plot",
    "progress",
]

understand(sys.modules[__name__])
if not TYPE_CHECKING:
    __getattr__, __dir__ = door(__name__, __all__)
