"""Gradients of a mini-batch, and training online through one."""

from otpe.training.offline import gradients
from otpe.training.online import online_pass

__all__ = ["gradients", "online_pass"]
