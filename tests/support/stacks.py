"""A pytest plugin, `-p support.stacks`: SIGUSR1 writes all threads' stacks to the stderr of the start."""

import faulthandler
import os
import signal

faulthandler.register(signal.SIGUSR1, file=os.fdopen(os.dup(2), "w"), all_threads=True)
