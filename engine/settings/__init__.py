"""The settings of a project, as one frozen tree.

settings = load_settings(Path.cwd(), overrides={"run.max_concurrency": 4}, environ=os.environ)
settings.git.max_age        # 5.0, seconds
"""

from __future__ import annotations

from engine.settings.load import FILE_NAME, load_settings
from engine.settings.schema import (
    BudgetSettings,
    GitSettings,
    HistorySettings,
    LessonsSettings,
    LLMSettings,
    LocksSettings,
    NotifySettings,
    RoleSettings,
    RolesSettings,
    RunSettings,
    Settings,
    VerifySettings,
)
from engine.settings.starter import starter_settings
from engine.settings.values import parse_duration, parse_size

__all__ = [
    "FILE_NAME",
    "BudgetSettings",
    "GitSettings",
    "HistorySettings",
    "LLMSettings",
    "LessonsSettings",
    "LocksSettings",
    "NotifySettings",
    "RoleSettings",
    "RolesSettings",
    "RunSettings",
    "Settings",
    "VerifySettings",
    "load_settings",
    "parse_duration",
    "parse_size",
    "starter_settings",
]
