"""One module per suite; each has `run(options) -> list[Row]`, rows of all its cases."""
