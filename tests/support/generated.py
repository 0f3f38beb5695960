"""Write every file that is made from the code: `PYTHONPATH=.:tests python -m support.generated`.

`--pages` leaves docs/faults.toml as it is: its simulated runs take two minutes of CPU. `git diff` shows what
changed.
"""

import argparse
import subprocess
import sys

from rigproof.judging.document import documents
from support import judged


def main() -> None:
    """Run the faults and write what they change, then the pages, some of which are made of it."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--pages", action="store_true", help="only the pages and schemas")
    if not options.parse_args().pages:
        subprocess.run([sys.executable, "-m", "support.outcomes"], check=True)
    for path, text in (documents() | {judged.PATH: judged.markdown()}).items():
        path.write_text(text, encoding="utf-8")
    subprocess.run(
        [
            sys.executable,
            "bench/detection_limits.py",
            "--page",
            "--out",
            "reports/samples/bench/detection.json",
        ],
        check=True,
    )


if __name__ == "__main__":
    main()
