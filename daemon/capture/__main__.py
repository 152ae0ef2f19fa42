"""``python -m daemon.capture CONFIG SOURCE``: run one source."""

import os
import sys
import threading

from daemon.capture.service import Capture
from daemon.process import main

status = main("capture", Capture)
if threading.active_count() > 1:
    os._exit(status)  # a thread that a driver blocks, or that runs its code, would hold up or crash Python's own end
sys.exit(status)
