// Only the precompiled header of this target is used.
