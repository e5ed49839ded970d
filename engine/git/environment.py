"""The environment that git runs in: nothing in it points git elsewhere, and nothing asks a person."""

from __future__ import annotations

from collections.abc import Mapping

# What `git rev-parse --local-env-vars` names: a leaked GIT_INDEX_FILE writes into the user's index.
LOCAL_VARIABLES = frozenset(
    """
    GIT_ALTERNATE_OBJECT_DIRECTORIES GIT_CONFIG GIT_CONFIG_PARAMETERS GIT_CONFIG_COUNT GIT_OBJECT_DIRECTORY GIT_DIR
    GIT_WORK_TREE GIT_IMPLICIT_WORK_TREE GIT_GRAFT_FILE GIT_INDEX_FILE GIT_NO_REPLACE_OBJECTS GIT_REPLACE_REF_BASE
    GIT_PREFIX GIT_SHALLOW_FILE GIT_COMMON_DIR GIT_INTERNAL_SUPER_PREFIX GIT_QUARANTINE_PATH GIT_NAMESPACE
    """.split()
)


def clean_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Give the environment for git: without what points it elsewhere, and without anything that could ask a person."""
    env = {name: value for name, value in environ.items() if not points_elsewhere(name)}
    env.update(
        GIT_TERMINAL_PROMPT="0", GIT_ASKPASS="true", GIT_OPTIONAL_LOCKS="0", LC_ALL="C", GIT_EDITOR="true"
    )
    env.setdefault("GIT_SSH_COMMAND", "ssh -oBatchMode=yes -oConnectTimeout=10")
    return env


def points_elsewhere(name: str) -> bool:
    """Whether a variable of this name makes git work on something else than the folder it is started in."""
    return name in LOCAL_VARIABLES or name.startswith(("GIT_CONFIG_KEY_", "GIT_CONFIG_VALUE_"))
