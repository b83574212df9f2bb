"""Ralph: an autonomous loop for coding agents that completes a task on evidence only."""

__version__ = "0.1.0"
