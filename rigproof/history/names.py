"""Names of a history's folders and files, for who imports nothing heavy, as every pytest session does."""

SIMULATED = "history-simulated"  # beside `history`: the folder of what simulated runs kept
IMPORTED = "imported-"  # in the name of such a file, behind its number
