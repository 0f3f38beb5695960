"""How fast does data get to a card and back?"""
