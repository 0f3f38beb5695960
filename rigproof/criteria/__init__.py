"""Criteria: pure functions from the evidence of a run to findings, and the evidence that they share."""
