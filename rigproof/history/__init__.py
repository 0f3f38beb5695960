"""What accepted runs leave behind: a history (stored by pytest-benchmark) and champions, by rig and GPU."""
