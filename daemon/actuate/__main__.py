"""``python -m daemon.actuate CONFIG NAME``: the process that moves actuator NAME."""

import sys

from daemon.actuate.service import Actuation
from daemon.plan import load_without_packages
from daemon.process import main

sys.exit(main("actuate", Actuation, read=load_without_packages))
