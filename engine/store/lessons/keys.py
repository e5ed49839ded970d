"""No key, token or password goes into a lessons file, which may be shared in the repository.

without_keys("401 for sk-ant-api03-abc", ()) == "401 for [key]"
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from engine.process import is_secret

SHORTEST = 8
"""Characters of the shortest value that is taken out wherever it stands; `1` or `yes` may be anything."""

_SHAPES = re.compile(
    r"""
      -----BEGIN\ [A-Z ]*PRIVATE\ KEY-----.*?(?:-----END\ [A-Z ]*PRIVATE\ KEY-----|\Z)
    | \b(?:sk|pk|rk)[-_](?:ant-|proj-|live_|test_)?[\w-]{16,}         # Anthropic, OpenAI, Stripe
    | \b(?:gh[pousr]_|github_pat_|glpat-|hf_|npm_|pypi-|xox[abeoprs]-)[\w-]{10,}
    | \b(?:AKIA|ASIA)[0-9A-Z]{16}\b                                   # AWS
    | \bAIza[\w-]{30,}                                                # Google
    | \beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*                               # a JSON web token
    | (?<=://)[^\s/:@]+:[^\s/@]+(?=@)                                 # https://name:password@host
    | (?i:(?<=\bbearer\ )|(?<=\bbasic\ ))[\w.~+/=-]{8,}
    | (?P<name>\b[A-Z][A-Z0-9_]*(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)\b["']?\s*[=:]\s*)[^\s,;]{4,}
    """,
    re.VERBOSE | re.DOTALL,
)


def secrets_of(environ: Mapping[str, str]) -> tuple[str, ...]:
    """The values of the variables whose names say that they are secret, the longest first."""
    values = {value for name, value in environ.items() if is_secret(name) and len(value) >= SHORTEST}
    return tuple(sorted(values, key=lambda value: (-len(value), value)))


def without_keys(text: str, secrets: Iterable[str]) -> str:
    """The text with `[key]` for each of the secrets and for whatever has the shape of one."""
    for secret in secrets:
        text = text.replace(secret, "[key]")
    return _SHAPES.sub(lambda found: f"{found['name'] or ''}[key]", text)
