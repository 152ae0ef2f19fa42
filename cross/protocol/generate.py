"""Writes ``protocol.hpp`` and ``protocol.cpp``: the messages and the manifest for the native worker.

``python -m cross.protocol.generate FOLDER``. Every constraint of the declarations becomes a check; one that this
generator does not know is an error, never left out.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from cross.protocol.generator.header import header_text
from cross.protocol.generator.source import source_text
from cross.protocol.generator.types import Types
from daemon.declarations import declared_structs


def main() -> None:
    """Write both files; the folder is made if need be."""
    parser = argparse.ArgumentParser(prog="python -m cross.protocol.generate", description=__doc__)
    parser.add_argument("folder", type=Path, help="where protocol.hpp and protocol.cpp go")
    folder: Path = parser.parse_args().folder
    types = Types(declared_structs())
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "protocol.hpp").write_text(header_text(types))
    (folder / "protocol.cpp").write_text(source_text(types))


if __name__ == "__main__":
    main()
