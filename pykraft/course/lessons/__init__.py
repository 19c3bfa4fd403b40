"""The measuring rigs that serve one lesson, each in a folder with the name of its notebook."""
