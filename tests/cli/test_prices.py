"""`taskyard prices`: the bill can be checked by hand."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from engine.llm.prices import load_prices
from tests.cli.taskyard import taskyard

Run = Callable[..., str]

OWN = """
dated = "2027-01-31"
batch = 0.25
[models.my-model]
input = 3.0
output = 9.125
cache_write_5m = 3.75
cache_write_1h = 6.0
cache_read = 0.3
"""


def test_the_built_in_table_with_its_date_and_long_prompts(root: Path, run: Run) -> None:
    first, header, *rows = run("prices").splitlines()
    assert first == (
        f"prices of {load_prices().dated}, built in; dollars for a million tokens; a batch call costs 0.5 of it"
    )
    assert header.split()[:3] == ["Model", "Prompts", "Input"]
    haiku = [row.split() for row in rows if row.startswith("claude-haiku-5-5 ")]
    assert haiku[0][1:] == ["$0.10", "$0.01", "$0.125", "$0.20", "$0.50"]
    assert haiku[1][1:] == ["over", "100,000", "tokens", "$0.50", "$0.05", "$0.625", "$1.00", "$2.50"]
    report = json.loads(run("prices", "--json"))
    assert report["file"] is None
    assert report["models"]["claude-opus-5-5"]["rates"]["cache_read"] == 0.2


def test_the_models_of_an_own_file(root: Path, run: Run) -> None:
    (root / "prices.toml").write_text(OWN)
    (root / "taskyard.toml").write_text('[llm]\nprices = "prices.toml"\n')
    first, _, *rows = run("prices").splitlines()
    assert first.startswith(
        f"prices of 2027-01-31, built in, with the models of {root / 'prices.toml'} over it; "
    )
    assert first.endswith("costs 0.25 of it")
    assert rows[-1].split() == ["my-model", "$3.00", "$0.30", "$3.75", "$6.00", "$9.125"]
    assert json.loads(run("prices", "--json"))["file"] == str(root / "prices.toml")


def test_outside_a_repository_the_built_in_ones(tmp_path: Path) -> None:
    said = taskyard("prices", at=tmp_path)
    assert said.status == 0, said
    assert ", built in; " in said.out


def test_the_example_in_the_help_is_a_price_table(tmp_path: Path) -> None:
    said = taskyard("prices", "--help", at=tmp_path).out
    lines = [line.strip() for line in said.splitlines()]
    example = lines[lines.index('dated = "2026-11-29"') : lines.index('same_as = "my-model"') + 1]
    file = tmp_path / "prices.toml"
    file.write_text("\n".join(example))
    assert load_prices(file).of("my-model-2") is not None
