"""The script's writes redirected to a folder of their own."""
