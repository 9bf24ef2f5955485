"""`profile`: where the time of a script's steps goes, the script unmodified; `block`: in this process."""
