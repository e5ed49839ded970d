"""The engine of Taskyard: from a board of tasks to landed work. It knows nothing of any screen."""
