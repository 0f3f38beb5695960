"""This host as Linux shows it, and processes on it. It knows no torch, no Ray and no NVML.

What is read: `proc` (CPUs, memory, boot id, this process), `cgroup` (limits of the container), `visible`
(CUDA_VISIBLE_DEVICES), `processes` (by id and start time, with user, program and parents), `cpu_users` (whose
CPU time it is), `shutdowns` (how the host went down). What runs: `child` and `parent`
(the two sides of a process of our own), `bounded` (a call in a thread, with a deadline), `cpu_load` and
`cpu_band` (threads that hold the CPU at a target). `package`: where rigproof and its acceptance tests are.
"""
