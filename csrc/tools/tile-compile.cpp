#include "tools/TileCompile.h"

int main(int argc, char **argv) { return ttc_tile_compile(argc, argv); }
