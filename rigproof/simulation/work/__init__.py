"""A worker's task on a simulated card: it makes the same records, in the same order, as a real one."""
