"""One file an engine, by its name. It has `machines(text)`: those that the text behind the colon names."""
