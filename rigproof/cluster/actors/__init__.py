"""What runs on the nodes: one agent for each node, one worker for each planned process."""
