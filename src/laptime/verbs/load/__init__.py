"""`load`: an endpoint or a program under load, and the highest rate that keeps a promise."""
