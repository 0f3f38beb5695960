"""The report page of a run, report.html.

bokeh looks for its user's settings when it is imported, and fails where the user has no home, as the users of
many containers have none: then it is imported with a home in which nothing is.
"""

import os
from pathlib import Path

try:
    Path.home()
except RuntimeError:
    os.environ["HOME"] = os.devnull
    try:
        import bokeh.settings  # noqa: F401
    finally:
        del os.environ["HOME"]
