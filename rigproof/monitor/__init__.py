"""The live view of a rig: the state of its hosts and GPUs, next to the profile's limits. Loads nothing.

`following` follows every node by an agent, which `local`, `cluster` or `simulated` reaches. `gathering` makes
one `snapshot` of what the agents report, and `run_tail` adds the current run. `signs` are the warning signs
in it. `frame` and `document` show them; `command` is the command.
"""
