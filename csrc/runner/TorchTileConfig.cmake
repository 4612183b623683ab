# find_package(TorchTile): the target TorchTile::runtime, for programs that run packaged models.
#
#   cmake -S . -B build -DCMAKE_PREFIX_PATH=$(python -c "import torch_tile; print(torch_tile.cmake_prefix_path())")
get_filename_component(_torch_tile_folder "${CMAKE_CURRENT_LIST_DIR}/.." ABSOLUTE)
if(NOT TARGET TorchTile::runtime)
  add_library(TorchTile::runtime SHARED IMPORTED)
  set_target_properties(TorchTile::runtime PROPERTIES
    IMPORTED_LOCATION "${_torch_tile_folder}/libtorch_tile_runtime.so"
    INTERFACE_INCLUDE_DIRECTORIES "${_torch_tile_folder}/include")
endif()
if(NOT EXISTS "${_torch_tile_folder}/libtorch_tile_runtime.so")
  set(TorchTile_FOUND FALSE)
  set(TorchTile_NOT_FOUND_MESSAGE "${_torch_tile_folder} has no libtorch_tile_runtime.so")
endif()
unset(_torch_tile_folder)
