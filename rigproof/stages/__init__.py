"""What a run does, in order: each stage is one workload on every GPU at once, under telemetry."""
