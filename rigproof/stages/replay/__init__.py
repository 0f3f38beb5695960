"""Does a training step give the same bits each time, and on every equal card?"""
