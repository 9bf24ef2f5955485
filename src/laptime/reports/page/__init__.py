"""The page of any document: HTML, SVG, and the scripts and style inside it."""
