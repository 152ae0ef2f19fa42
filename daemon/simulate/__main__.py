"""``python -m daemon.simulate CONFIG WORLD``: run one world."""

import sys

from daemon.process import main
from daemon.simulate.service import Simulate

sys.exit(main("simulate", Simulate))
