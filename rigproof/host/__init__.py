"""This host as Linux shows it: /proc, cgroups, visible devices, processes."""
