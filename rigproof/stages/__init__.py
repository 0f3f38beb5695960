"""The stages of a run: each is one workload on every GPU at once, under telemetry."""
