"""How a result is shown: terminal, notebook, HTML, JSON, CSV, JUnit, Markdown, Model Explorer overlay."""
