#ifndef TORCH_TILE_TOOLS_TILECOMPILE_H
#define TORCH_TILE_TOOLS_TILECOMPILE_H

/// What the program tile-compile does. Exported by the compiler library for it alone.
extern "C" __attribute__((visibility("default"))) int ttc_tile_compile(int argc, char **argv);

#endif
