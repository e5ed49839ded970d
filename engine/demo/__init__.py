"""The demo: a sample project with a task board, and the script for the model that works on it."""

from engine.demo.project import CART_TASKS, DemoProject, find_demo, make_demo

__all__ = ["CART_TASKS", "DemoProject", "find_demo", "make_demo"]
