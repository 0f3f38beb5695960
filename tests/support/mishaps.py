"""Strategies that fail in the middle of their game, and the process of rewards that plays such ones.

Such a completion begins with a token that no model writes; `python -m support.mishaps` is `reward_process`
otherwise.
"""

import os
import signal
import sys
from dataclasses import replace

from rigproof.stages.feeding import reward_process
from rigproof.stages.feeding.strategies import WORDS, parse, reward

KINDS = ("hang", "ignore signals and hang", "abort", "exit", "eat memory", "raise")
FIRST = 1000  # the token of the first of them
PLAYED = "played"


def completion_of(*words):
    return tuple(map(WORDS.index, words))


def completion(kind=PLAYED, moves=("left", "down", "right", "up")):
    """One that is played to its end, or that fails in this way."""
    answer = completion_of("begin", *moves, "look ahead 1", "end")
    return answer if kind == PLAYED else (FIRST + KINDS.index(kind), *answer)


def parsed(tokens):
    strategy = parse(tokens)
    return replace(strategy, ahead=-tokens[0]) if tokens[0] >= FIRST else strategy


def rewarded(strategy, seed):
    if strategy.ahead > 0:
        return reward(strategy, seed)
    reward(replace(strategy, ahead=1), seed)
    return fail(KINDS[-strategy.ahead - FIRST])


def fail(kind):
    match kind:
        case "abort":
            os.abort()
        case "exit":
            os._exit(3)
        case "raise":
            raise RuntimeError("a mistake in the strategy")
        case "eat memory":
            hoard = []
            while True:
                hoard.append(bytearray(2**24))
        case "ignore signals and hang":
            signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    while True:
        pass


if __name__ == "__main__":
    reward_process.parse, reward_process.reward = parsed, rewarded
    reward_process.main(int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3]))
