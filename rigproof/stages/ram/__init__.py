"""Is a host's RAM as fast as that of its equals, and does it keep what is written to it?"""
