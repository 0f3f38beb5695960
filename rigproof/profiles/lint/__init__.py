"""Checks of profiles that load without errors: plans that cannot fit, limits that cannot fail."""
