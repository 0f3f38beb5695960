"""How fast is a device's own memory?"""
