"""No plugin."""

raise AssertionError("files with an underscore are not loaded")
