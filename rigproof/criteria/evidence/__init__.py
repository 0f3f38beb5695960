"""What criteria share: a recording's windows, rounds and readings, and whether readings can be trusted."""
