"""Do devices that work together exchange data as fast as they can, and right?"""
