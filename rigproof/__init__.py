"""rigproof proves that a GPU training rig is fit before a training session starts."""

__version__ = "0.1.0"
