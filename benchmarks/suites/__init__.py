"""One module per suite; each has `run(options) -> list[Row]`, rows of all its cases."""

# Suites of GPU programs as users write them, by topic.
GPU_PROGRAMS = [
    f"gpu_{topic}"
    for topic in ("programs", "physics", "images", "signals", "losses", "layers", "weights", "linear_algebra")
]
