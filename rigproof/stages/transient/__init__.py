"""Does a host stand its GPUs switching their load on and off together?"""
