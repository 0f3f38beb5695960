"""The sustained stage: memory full of operands, multiplied over and over in 16-bit by all workers."""
