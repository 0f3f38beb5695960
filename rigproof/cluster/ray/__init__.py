"""One connection to Ray, its nodes, and GPUs reserved on them."""
