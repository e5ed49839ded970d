"""A compiled prompt of 50 items against parsing and rendering it each time."""

from __future__ import annotations

from engine.model import Task
from engine.templates import TemplateEngine
from tests.bench import Row, best

PROMPT = """\
You are the {{ role }}. The board holds {{ tasks | length }} tasks:

{% for task in tasks %}
- {{ task.id }}: {{ task.scope }}
{% endfor %}

Begin with {{ first }}.
"""


def rows() -> list[Row]:
    """Measure rendering with and without compilation."""
    tasks = [Task(id=f"T{number}", scope=f"Do the thing with the number {number}") for number in range(50)]
    templates = TemplateEngine()
    templates.compile("prompt", PROMPT)

    def render() -> None:
        templates.render("prompt", role="Planner", tasks=tasks, first="T0")

    def parse_and_render() -> None:
        templates.clear()
        templates.compile_and_render("prompt", PROMPT, role="Planner", tasks=tasks, first="T0")

    parsed = best(parse_and_render, times=20)
    templates.compile("prompt", PROMPT)
    rendered = best(render, times=400)
    ratio = parsed / rendered
    return [
        Row("a compiled prompt of 50 items", "≤ 60", rendered * 1e6, "µs", None, ok=rendered <= 60e-6),
        Row("  against parsing it each time", "≥ 20 ×", parsed * 1e6, "µs", ratio, ok=ratio >= 20),
    ]
