"""The live view of a rig: what its hosts and GPUs do now, next to the profile's limits. Loads nothing.

`local_source` and `cluster_source` read; `gathering` makes one `snapshot` of it, `run_tail` adds the run
that goes on; `signs` are the warning signs in it; `frame` and `document` show them; `command` is all of it.
"""
