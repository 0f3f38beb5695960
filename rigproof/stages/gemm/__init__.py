"""The gemm stage: each device's steady rate, precision by precision."""
