"""The driver's side: agents, workers and stages as they are watched while a run goes on."""
