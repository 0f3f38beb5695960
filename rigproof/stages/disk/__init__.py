"""Is there room where checkpoints are written, is that disk fast, and does it keep what is written to it?"""
