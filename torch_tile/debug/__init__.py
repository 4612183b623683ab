"""Tools that show a compile: dumps, runnable scripts, explanations, logs."""
