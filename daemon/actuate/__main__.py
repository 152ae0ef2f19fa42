"""``python -m daemon.actuate CONFIG NAME``: the process that moves actuator NAME."""

import sys

from daemon.actuate.service import Actuation
from daemon.process import main

sys.exit(main("actuate", Actuation))
