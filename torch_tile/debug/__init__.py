"""What was compiled, how, and why: dumps, runnable scripts, explanations, counters."""
