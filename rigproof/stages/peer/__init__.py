"""The peer stage: copies between every two GPUs of a host."""
