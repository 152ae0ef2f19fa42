"""``python -m daemon.infer CONFIG infer``: run all agents of a configuration."""

import sys

from daemon.infer.service import Infer
from daemon.process import main

sys.exit(main("infer", Infer))
