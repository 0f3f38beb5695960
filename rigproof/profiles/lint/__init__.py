"""Problems of a profile that can be read."""
