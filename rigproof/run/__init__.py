"""One acceptance run: start a rig, run the stages of its plan, take the rig down."""
