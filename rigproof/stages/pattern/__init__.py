"""Does a device's memory keep what is written to it, when it is hot and nearly full?"""
