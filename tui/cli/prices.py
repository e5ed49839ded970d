"""`taskyard prices`: the table that model calls are priced by."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.cli.console import say, say_json, say_table
from tui.cli.options import AsJson

if TYPE_CHECKING:
    from pathlib import Path

    from engine.llm.prices import Rates


def prices(as_json: AsJson = False) -> int:
    """Print what models cost: dollars for a million tokens of each class.

    A call costs its tokens of each class times these, and as a batch that times the factor in the first line. What an
    agent command costs is what it reports. Models of your own, or other prices, go into a file that taskyard.toml names
    as [llm] prices = "prices.toml"; the models that it does not name keep the built-in prices:

    \b
    dated = "2026-11-29"
    [models.my-model]
    input = 4.0
    output = 20.0
    cache_write_5m = 5.0
    cache_write_1h = 8.0
    cache_read = 0.2
    [models.my-model-2]
    same_as = "my-model"
    """
    import msgspec

    from engine.llm.prices import load_prices

    file = _own_file()
    table = load_prices(file)
    if as_json:
        say_json({"file": file, **msgspec.to_builtins(table)})
        return 0
    source = f"built in, with the models of {file} over it" if file is not None else "built in"
    say(
        f"prices of {table.dated}, {source}; dollars for a million tokens; a batch call costs {table.batch:g} of it"
    )
    rows = []
    for name, price in table.models.items():
        rows.append((name, "", *_cells(price.rates)))
        if price.long is not None and price.above is not None:
            rows.append((name, f"over {price.above:,} tokens", *_cells(price.long)))
    header = ("Model", "Prompts", "Input", "Cache read", "Cache write 5 m", "Cache write 1 h", "Output")
    say_table(header, rows, right=frozenset(range(2, 7)))
    return 0


def _own_file() -> Path | None:
    """The price file of the settings around the current directory; outside a repository there are none."""
    from engine.errors import PreflightError
    from tui.cli.place import find_place

    try:
        return find_place().settings.llm.prices
    except PreflightError:
        return None


def _cells(rates: Rates) -> tuple[str, ...]:
    from tui.plain import rate_in_words

    return tuple(
        rate_in_words(rate)
        for rate in (rates.input, rates.cache_read, rates.cache_write_5m, rates.cache_write_1h, rates.output)
    )
