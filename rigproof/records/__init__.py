"""What a run leaves behind: the Recording (what was measured) and its Verdicts (what that means).

Plain frozen dataclasses, without behaviour that needs a clock, a file, Ray or torch. `disk` writes
them while a run goes on and reads them back.
"""
