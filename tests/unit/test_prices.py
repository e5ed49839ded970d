"""Prices: every class of token once, in dollars computed by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.errors import SettingsError
from engine.llm.prices import load_prices
from engine.model import Usage

CENT_OF_A_CENT = 1e-6

# model, usage, batch, dollars worked out by hand from the public price pages
FIXTURES = [
    # 1,000 × $4 + 500 × $20, a million each: 0.004 + 0.010
    ("claude-opus-5-5", Usage(input=1_000, output=500), False, 0.014),
    # 200 × 4 + 20,000 × 5 (kept 5 m) + 800 × 20: 0.0008 + 0.1 + 0.016
    ("claude-opus-5-5", Usage(input=200, cache_write_5m=20_000, output=800), False, 0.1168),
    # the same prefix read instead: 0.0008 + 20,000 × 0.20 = 0.004 + 0.016
    ("claude-opus-5-5", Usage(input=200, cache_read=20_000, output=800), False, 0.0208),
    # kept for an hour, in a batch: (0.0008 + 20,000 × 8 = 0.16 + 0.016) / 2
    ("claude-opus-5-5", Usage(input=200, cache_write_1h=20_000, output=800), True, 0.0884),
    # all five classes at once: 0.003 + 0.0075 + 0.00375 + 0.006 + 0.0003
    (
        "claude-sonnet-4-6",
        Usage(input=1_000, output=500, cache_write_5m=1_000, cache_write_1h=1_000, cache_read=1_000),
        False,
        0.02055,
    ),
    ("claude-sonnet-4-5-20250929", Usage(input=1_000_000), False, 3.0),
    ("claude-opus-4-8", Usage(output=1_000_000), True, 12.5),
    ("claude-fable-5-1", Usage(cache_read=2_000_000), False, 0.5),
    # exactly 100,000 prompt tokens are not yet long: 40,000 × 0.10 + 60,000 × 0.01 + 1,000 × 0.50
    ("claude-haiku-5-5", Usage(input=40_000, cache_read=60_000, output=1_000), False, 0.0051),
    # one more token, and everything is priced as long: 40,001 × 0.50 + 60,000 × 0.05 + 1,000 × 2.50
    ("claude-haiku-5-5", Usage(input=40_001, cache_read=60_000, output=1_000), False, 0.0255005),
    ("claude-haiku-5-5", Usage(), False, 0.0),
]


@pytest.mark.parametrize(("model", "usage", "batch", "dollars"), FIXTURES)
def test_a_call_costs_what_the_price_page_says(model: str, usage: Usage, batch: bool, dollars: float) -> None:
    price = load_prices().price(model, usage, batch=batch)
    assert price == pytest.approx(dollars, abs=CENT_OF_A_CENT / 100)


def test_the_savings_of_cache_and_batch_add_up_to_the_plain_price() -> None:
    # Plain: 20,200 × $4 + 800 × $20 = 0.0968; with the cache 0.0208; in a batch half of that.
    usage = Usage(input=200, cache_read=20_000, output=800)
    cost = load_prices().cost("claude-opus-5-5", usage, batch=True)
    assert cost is not None
    assert cost.usd == pytest.approx(0.0104)
    assert cost.saved_by_cache == pytest.approx(0.076)
    assert cost.saved_by_batch == pytest.approx(0.0104)
    assert cost.usd + cost.saved == pytest.approx(0.0968)


def test_a_write_alone_saves_less_than_nothing() -> None:
    cost = load_prices().cost("claude-opus-5-5", Usage(cache_write_5m=1_000_000))
    assert cost is not None
    assert cost.saved_by_cache == pytest.approx(-1.0)


def test_an_unknown_model_has_no_price_rather_than_a_guessed_one() -> None:
    table = load_prices()
    assert table.price("claude-opus-9", Usage(input=1)) is None
    assert table.cost("llama3.2", Usage(input=1)) is None
    assert table.worst_case("llama3.2", 10, 10) is None


@pytest.mark.parametrize("usage_of", [
    lambda prompt: Usage(input=prompt, output=4_000),
    lambda prompt: Usage(cache_read=prompt, output=4_000),
    lambda prompt: Usage(cache_write_5m=prompt, output=4_000),
    lambda prompt: Usage(cache_write_1h=prompt, output=4_000),
    lambda prompt: Usage(input=prompt // 2, cache_write_1h=prompt - prompt // 2, output=1),
])  # fmt: skip
@pytest.mark.parametrize("prompt", [10, 100_000, 100_001])
@pytest.mark.parametrize("batch", [False, True])
def test_no_call_costs_more_than_its_worst_case(usage_of, prompt: int, batch: bool) -> None:  # type: ignore[no-untyped-def]
    table = load_prices()
    for model in table.models:
        worst = table.worst_case(model, prompt, 4_000, batch=batch, cache="1h")
        price = table.price(model, usage_of(prompt), batch=batch)
        assert worst is not None
        assert price is not None
        assert price <= worst + 1e-12


def test_a_prompt_without_marks_is_not_charged_for_cache_writes() -> None:
    table = load_prices()
    assert table.worst_case("claude-opus-5-5", 1_000_000, 0) == pytest.approx(4.0)
    assert table.worst_case("claude-opus-5-5", 1_000_000, 0, cache="5m") == pytest.approx(5.0)


def test_a_users_file_adds_and_corrects_models_and_keeps_the_rest(tmp_path: Path) -> None:
    mine = tmp_path / "prices.toml"
    mine.write_text(
        'dated = "2027-01-01"\n'
        "[models.local]\ninput = 0\noutput = 0\ncache_write_5m = 0\ncache_write_1h = 0\ncache_read = 0\n"
        '[models."claude-opus-5-5"]\nsame_as = "local"\n'
    )
    table = load_prices(mine)
    assert table.dated == "2027-01-01"
    assert table.price("claude-opus-5-5", Usage(input=5_000_000)) == 0.0
    assert table.price("claude-opus-5", Usage(input=1_000_000)) == pytest.approx(5.0)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("models = 3", "models"),
        ("[models.m]\ninput = 1.0\n", "output"),
        ("[models.m]\ninput = 1.0\nouput = 1.0\n", "ouput"),
        ('[models.m]\nsame_as = "nobody"\n', "nobody"),
        ("not toml", ":1:5: no valid TOML"),
        (
            "[models.m]\ninput=-1\noutput=1\ncache_write_5m=1\ncache_write_1h=1\ncache_read=1\n",
            "below zero",
        ),
        (
            "[models.m]\ninput=1\noutput=1\ncache_write_5m=1\ncache_write_1h=1\ncache_read=1\nabove=5\n",
            "above",
        ),
    ],
)
def test_a_wrong_price_file_is_named_with_its_fault(tmp_path: Path, text: str, said: str) -> None:
    mine = tmp_path / "prices.toml"
    mine.write_text(text)
    with pytest.raises(SettingsError) as caught:
        load_prices(mine)
    assert said in str(caught.value)
    assert "prices.toml" in str(caught.value)


def test_a_missing_price_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot be read"):
        load_prices(tmp_path / "none.toml")


def test_a_price_file_of_another_encoding_is_an_error(tmp_path: Path) -> None:
    mine = tmp_path / "prices.toml"
    mine.write_bytes("# Preise in €\n".encode("cp1252"))
    with pytest.raises(SettingsError, match=r"prices\.toml is not UTF-8 \(byte 12\): save it as UTF-8"):
        load_prices(mine)
