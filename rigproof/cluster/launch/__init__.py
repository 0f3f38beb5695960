"""A cluster over several machines, started and ended over ssh."""
