"""The parts that screens and panels are put together from."""
