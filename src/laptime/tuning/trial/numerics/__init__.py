"""Mode gate: the numerics of a few training steps, captured and compared with the script as it is."""
