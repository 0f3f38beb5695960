"""The recording's files: written while a run goes on, and read back on any machine."""
