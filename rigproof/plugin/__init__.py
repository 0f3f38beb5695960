"""The pytest plugin: options, fixtures, parametrization over what the profile promises, exit status."""
