"""GPUs and the CPU as torch devices: memory, products that are verified, and rounds of work on them."""
