"""The results of a run: the Recording (what was measured) and its Verdicts (what that means).

Plain frozen dataclasses, without behaviour that needs a clock, a file, Ray or torch. `disk` writes
them during a run and reads them back.
"""
