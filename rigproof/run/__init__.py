"""One acceptance run: bring a rig up, run the stages of its plan, take it down."""
