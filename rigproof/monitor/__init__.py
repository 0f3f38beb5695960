"""The live view of a rig: the state of its hosts and GPUs, next to the profile's limits. Loads nothing.

`local_source` and `cluster_source` read; `gathering` makes one `snapshot` of it, `run_tail` adds the
current run; `signs` are the warning signs in it; `frame` and `document` show them; `command` is the command.
"""
