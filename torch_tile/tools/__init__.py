"""What scripts written for Triton import from its `tools`."""
