"""Which sizes of a training step's matrices run best on a card?"""
