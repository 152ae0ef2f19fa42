"""``python -m daemon.gateway CONFIG gateway``."""

import sys

from daemon.gateway.memory import bound_memory
from daemon.gateway.service import Gateway
from daemon.plan import load_without_packages
from daemon.process import main

bound_memory()
sys.exit(main("gateway", Gateway, read=load_without_packages))
