"""``python -m daemon.gateway CONFIG gateway``."""

import sys

from daemon.gateway.service import Gateway
from daemon.plan import load_without_packages
from daemon.process import main

sys.exit(main("gateway", Gateway, read=load_without_packages))
