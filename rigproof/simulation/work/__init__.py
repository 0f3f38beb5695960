"""What a worker's task does on a simulated card: for each stage the records of a real one, in their order."""
