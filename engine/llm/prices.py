"""What model calls cost, from a dated table that users can correct.

    prices = load_prices(user_file)
    prices.price("claude-opus-5-5", usage)               # dollars, or None: this model's price is not known
    prices.cost("claude-opus-5-5", usage, batch=True)    # the same with what the cache and the batch took off
    prices.worst_case("claude-opus-5-5", prompt_tokens=20_000, max_tokens=16_000)

An unknown model is never guessed at: its tokens are shown, its price is None, and a budget in dollars refuses it.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from engine.errors import SettingsError
from engine.llm.blocks import CacheTtl
from engine.model import Usage
from engine.toml import parse_toml

_SHIPPED = Path(__file__).with_name("prices.toml")
_MILLION = 1_000_000  # tokens that a price of the table is for


class Rates(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Dollars for a million tokens, by class."""

    input: float
    output: float
    cache_write_5m: float
    cache_write_1h: float
    cache_read: float

    def price(self, usage: Usage) -> float:
        """Give the dollars of these tokens; every class counts once."""
        return (
            usage.input * self.input
            + usage.output * self.output
            + usage.cache_write_5m * self.cache_write_5m
            + usage.cache_write_1h * self.cache_write_1h
            + usage.cache_read * self.cache_read
        ) / _MILLION


class ModelPrice(msgspec.Struct, frozen=True):
    """The rates of one model, and others for prompts of more than `above` tokens."""

    rates: Rates
    above: int | None = None
    long: Rates | None = None

    def for_prompt(self, tokens: int) -> Rates:
        """Give the rates that hold for a call with so many prompt tokens, cached ones counted."""
        return (
            self.long
            if self.long is not None and self.above is not None and tokens > self.above
            else self.rates
        )


class Cost(msgspec.Struct, frozen=True):
    """What a call cost, and what the prompt cache and the batch took off the plain price.

    `saved_by_cache` is negative for a call that only wrote: keeping costs more than reading, until somebody reads.
    """

    usd: float
    saved_by_cache: float = 0.0
    saved_by_batch: float = 0.0

    @property
    def saved(self) -> float:
        """All that was saved."""
        return self.saved_by_cache + self.saved_by_batch


class PriceTable(msgspec.Struct, frozen=True):
    """Prices by model id, as of `dated` (an ISO date). `batch` is the factor of a batch call."""

    dated: str
    batch: float
    models: dict[str, ModelPrice]

    def of(self, model: str) -> ModelPrice | None:
        """Find the price of a model id; a trailing date or `-latest` does not change it."""
        return self.models.get(model) or self.models.get(re.sub(r"-(\d{8}|latest)$", "", model))

    def price(self, model: str, usage: Usage, *, batch: bool = False) -> float | None:
        """Give the dollars of one call, or None when the model is unknown."""
        cost = self.cost(model, usage, batch=batch)
        return None if cost is None else cost.usd

    def cost(self, model: str, usage: Usage, *, batch: bool = False) -> Cost | None:
        """Give the dollars of one call and the savings in it, or None when the model is unknown.

        `usage` must be of a single call: whether a prompt counts as long is decided by its size.
        """
        known = self.of(model)
        if known is None:
            return None
        rates = known.for_prompt(usage.prompt)
        with_cache = rates.price(usage)
        without_cache = rates.price(Usage(input=usage.prompt, output=usage.output))
        usd = with_cache * self.batch if batch else with_cache
        return Cost(usd, without_cache - with_cache, with_cache - usd)

    def worst_case(
        self,
        model: str,
        prompt_tokens: int,
        max_tokens: int,
        *,
        batch: bool = False,
        cache: CacheTtl | None = None,
    ) -> float | None:
        """Give the most one call can cost: nothing read from a cache, all of it kept (`cache`), all output used."""
        known = self.of(model)
        if known is None:
            return None
        rates = known.for_prompt(prompt_tokens)
        match cache:
            case "1h":
                usage = Usage(cache_write_1h=prompt_tokens, output=max_tokens)
            case "5m":
                usage = Usage(cache_write_5m=prompt_tokens, output=max_tokens)
            case None:
                usage = Usage(input=prompt_tokens, output=max_tokens)
        usd = rates.price(usage)
        return usd * self.batch if batch else usd


def load_prices(user_file: Path | None = None) -> PriceTable:
    """Read the shipped table, with the models of the user's file over it.

    Raises SettingsError when the user's file cannot be read or is no price table.
    """
    shipped = _shipped()
    if user_file is None:
        return shipped
    try:
        text = user_file.read_text("utf-8")
    except OSError as error:
        raise SettingsError(
            f"the price file {user_file} cannot be read ({error.strerror})",
            "correct [llm] prices in taskyard.toml",
        ) from None
    except UnicodeDecodeError as error:
        raise SettingsError(
            f"the price file {user_file} is not UTF-8 (byte {error.start})", "save it as UTF-8"
        ) from None
    return _parse(text, str(user_file), shipped)


@cache
def _shipped() -> PriceTable:
    return _parse(_SHIPPED.read_text("utf-8"), _SHIPPED.name, PriceTable("", 0.5, {}))


class _Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    input: float | None = None
    output: float | None = None
    cache_write_5m: float | None = None
    cache_write_1h: float | None = None
    cache_read: float | None = None
    same_as: str | None = None
    above: int | None = None
    long: Rates | None = None


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    dated: str = ""
    batch: float | None = None
    models: dict[str, _Entry] = {}


def _parse(text: str, name: str, base: PriceTable) -> PriceTable:
    try:
        file = msgspec.convert(parse_toml(text, name), _File)
    except msgspec.ValidationError as error:
        raise SettingsError(f"{name} is not a price table: {error}", _HINT) from None
    models = dict(base.models)
    for model, entry in file.models.items():
        if entry.same_as is None:
            models[model] = _model_price(name, model, entry)
        elif entry.same_as in models:
            models[model] = models[entry.same_as]
        else:
            raise SettingsError(
                f"{name}: {model} is the same as {entry.same_as}, which has no price above it", _HINT
            )
    return PriceTable(file.dated or base.dated, base.batch if file.batch is None else file.batch, models)


def _model_price(name: str, model: str, entry: _Entry) -> ModelPrice:
    given: dict[str, Any] = msgspec.to_builtins(entry)
    above, long = given.pop("above", None), given.pop("long", None)
    try:
        rates = msgspec.convert(given, Rates)
    except msgspec.ValidationError as error:
        raise SettingsError(f"{name}: the price of {model} is incomplete: {error}", _HINT) from None
    if any(rate < 0 for rate in msgspec.structs.astuple(rates)):
        raise SettingsError(f"{name}: a price of {model} is below zero", _HINT)
    if (above is None) != (long is None):
        raise SettingsError(f"{name}: {model} needs both `above` and a `long` table, or neither", _HINT)
    return ModelPrice(rates, above, entry.long)


_HINT = "give input, output, cache_write_5m, cache_write_1h and cache_read for each model"
