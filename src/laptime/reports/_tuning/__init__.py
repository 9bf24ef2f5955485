"""How a session of `tune` is told: terminal, Markdown, JSON, page."""
