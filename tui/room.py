"""How much room the dashboard needs, in cells and lines."""

from __future__ import annotations

LEAST = (38, 10)
"""Below it nothing can be read."""

ENOUGH = (40, 12)
"""The least that everything is laid out for: what is asked for in a smaller terminal."""
