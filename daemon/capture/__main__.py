"""``python -m daemon.capture CONFIG SOURCE``: run one source."""

import sys

from daemon.capture.service import Capture
from daemon.process import main

sys.exit(main("capture", Capture))
