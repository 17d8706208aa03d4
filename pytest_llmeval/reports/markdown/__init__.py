"""The JSON report as Markdown: made from the document alone, so also where the project is not."""
