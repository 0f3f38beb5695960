"""Does the rig train together, how much faster than its fastest card alone, and with the same gradients?"""
