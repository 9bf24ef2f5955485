"""The nouns: plain frozen structs, no I/O. Everything produces or consumes a `Run`."""
