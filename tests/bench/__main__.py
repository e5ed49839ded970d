"""Run the benchmarks, all or those named, and print their figures beside the targets; status 1 if one misses."""

from __future__ import annotations

import importlib
import pkgutil
import sys
import traceback
from collections.abc import Callable

from rich.console import Console
from rich.table import Table

from tests import bench
from tests.bench import Row


def names() -> list[str]:
    """What can be measured: `templates` for `bench_templates.py`, and so on."""
    found = (module.name for module in pkgutil.iter_modules(bench.__path__))
    return sorted(name.removeprefix("bench_") for name in found if name.startswith("bench_"))


def measure(name: str) -> list[Row]:
    """Run one benchmark."""
    rows: Callable[[], list[Row]] = importlib.import_module(f"tests.bench.bench_{name}").rows
    return rows()


def main(wanted: list[str]) -> int:
    """Print the table for the benchmarks `wanted` (all when empty)."""
    known = names()
    if unknown := [name for name in wanted if name not in known]:
        print(f"no such benchmark: {', '.join(unknown)}; there are: {', '.join(known)}", file=sys.stderr)
        return 2
    console = Console()
    table = Table("Benchmark", "What", "Target", "Measured", "Ratio", "")
    missed = 0
    for name in wanted or known:
        with console.status(f"measuring {name} …"):
            try:
                rows = measure(name)
            except Exception:
                # The figures of the others are not to be lost with it.
                traceback.print_exc()
                table.add_row(name, "broke off", "", "", "", "MISSED")
                missed += 1
                continue
        for row in rows:
            digits = ",.4g" if row.measured < 1e4 else ",.0f"
            ratio = "" if row.ratio is None else f"{row.ratio:,.1f} ×"
            figure = f"{row.measured:{digits}} {row.unit}"
            table.add_row(name, row.what, row.target, figure, ratio, "ok" if row.ok else "MISSED")
            missed += not row.ok
        table.add_section()
    console.print(table)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
