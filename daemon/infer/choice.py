"""Which package of the models folder an agent acts by, kept over restarts.

The file names a package there and nothing else: whoever could write it could not make infer load from another place.
"""

from __future__ import annotations

import re
from pathlib import Path

from daemon.messages import NAME_PATTERN
from daemon.wholefile import replace_file


class Choices:
    """The choices of all agents, a file each.

    Args:
        state: state folder of the daemon.
        models: folder of the packages that can be chosen.
    """

    def __init__(self, state: Path, models: Path) -> None:
        self._state, self._models = state, models

    def package(self, name: str) -> Path:
        """Folder of a package that can be chosen."""
        return self._models / name

    def read(self, agent: str) -> str:
        """The package chosen for an agent; empty: that of the configuration."""
        try:
            name = self._path(agent).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError):
            return ""
        return name if re.match(NAME_PATTERN, name) else ""

    def write(self, agent: str, name: str) -> None:
        """Keep a choice; empty goes back to the configuration.

        Raises:
            OSError: not possible; what was chosen before is untouched.
        """
        path = self._path(agent)
        if not name:
            path.unlink(missing_ok=True)
            return
        replace_file(path, f"{name}\n".encode(), durable=True)

    def _path(self, agent: str) -> Path:
        return self._state / f"{agent}.model"
