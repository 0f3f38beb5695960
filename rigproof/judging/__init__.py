"""Every criterion by name, the verdicts of a recording, and the pages generated from them."""
