"""The sustained stage: all workers fill memory with operands and multiply them continuously in 16-bit."""
