"""reflexd: learned policies acting on a small Linux device, from camera frame to actuator."""

import sys
from pathlib import Path

__version__ = "0.1.0"

# What a Debian release lacks, the package brings along for that release's Python. Last: what the system has wins.
_brought = Path(__file__).parents[1] / f"python{sys.version_info.major}.{sys.version_info.minor}"
if _brought.is_dir():
    sys.path.append(str(_brought))
