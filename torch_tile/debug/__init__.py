"""What a compile did: dumps, runnable scripts, explanations."""
