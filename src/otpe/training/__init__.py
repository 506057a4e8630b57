"""Gradients of a mini-batch, and online training on one."""

from otpe.training.offline import gradients
from otpe.training.online import online_pass

__all__ = ["gradients", "online_pass"]
