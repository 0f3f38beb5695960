"""How fast do two nodes exchange data over the LAN between them?"""
