"""Where the model service is, and what lets us in."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from engine.errors import SettingsError

_PUBLIC = "https://api.anthropic.com"
_NO_KEY = "no-key-needed"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An address, and the credentials for it. With neither key nor token, a profile of the SDK may serve.

    `url` is for people to read; `base_url` is what the SDK gets, None where its own rules choose. `secrets` are the
    texts that must never be shown.
    """

    url: str
    base_url: str | None
    local: bool
    api_key: str = field(repr=False)
    token: str = field(repr=False)
    secrets: tuple[str, ...] = field(repr=False)

    @classmethod
    def of(cls, base_url: str | None, api_key: str | None, environ: Mapping[str, str]) -> Endpoint:
        """Find the endpoint: what is given beats ANTHROPIC_BASE_URL, ANTHROPIC_API_KEY and ANTHROPIC_AUTH_TOKEN.

        An endpoint on this machine needs no key. Raises SettingsError for a `base_url` that is no address.
        """
        base_url = base_url or environ.get("ANTHROPIC_BASE_URL")
        if base_url is not None:
            # The SDK appends /v1 by itself, and many addresses are handed around with it.
            base_url = base_url.rstrip("/").removesuffix("/v1")
        url = base_url or _PUBLIC
        local = is_loopback(url)
        given = (api_key or "").strip() or environ.get("ANTHROPIC_API_KEY", "").strip()
        token = "" if given else environ.get("ANTHROPIC_AUTH_TOKEN", "").strip()
        return cls(
            url=url,
            base_url=base_url,
            local=local,
            api_key=given or (_NO_KEY if local and not token else ""),
            token=token,
            secrets=(given, environ.get("ANTHROPIC_API_KEY", ""), environ.get("ANTHROPIC_AUTH_TOKEN", "")),
        )


def is_loopback(url: str) -> bool:
    """Whether the URL points at this machine. Raises SettingsError for one that is none."""
    try:
        parts = urlsplit(url)
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise SettingsError(
            f"{url!r} is no address of a model service",
            "give [llm] base_url as https://host or http://host:port",
        )
    host = parts.hostname
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
