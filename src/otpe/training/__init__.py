"""Gradients of a mini-batch, online training on one, and optimizers by name."""

from otpe.training.offline import gradients
from otpe.training.online import online_pass
from otpe.training.optimizer import Optimizer

__all__ = ["Optimizer", "gradients", "online_pass"]
