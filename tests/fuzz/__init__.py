"""One fuzzer over whole programs: generator, oracle, shrinker. `python -m tests.fuzz --help`."""
