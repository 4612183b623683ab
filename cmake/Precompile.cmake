# torch_tile_precompile(target <header> FACT...): the target's files read `header`, named as it is included, once for all.
# FACTs are the versions of what the header includes; the header's own text, the compiler and its flags are known here.
#
# Clang maps a precompiled header into memory. GCC reads all of it for each file, which takes as long as the headers
# themselves: TORCH_TILE_PRECOMPILE is off for GCC unless it is asked for.
function(torch_tile_precompile target header)
  if(NOT TORCH_TILE_PRECOMPILE)
    return()
  endif()
  target_precompile_headers(${target} PRIVATE <${header}>)
  # For ccache. Clang's file names its checkout: what stands for it in keys is what it is made of (CCACHE_PCH_EXTSUM).
  get_target_property(_binary_dir ${target} BINARY_DIR)
  file(SHA256 ${PROJECT_SOURCE_DIR}/csrc/${header} _text)
  file(WRITE ${_binary_dir}/CMakeFiles/${target}.dir/cmake_pch.hxx.pch.sum
    "${_text} ${ARGN} ${CMAKE_CXX_COMPILER_VERSION} ${CMAKE_CXX_FLAGS} ${CMAKE_BUILD_TYPE}")
endfunction()

# torch_tile_read_precompiled(target from): the target's files read the precompiled header of another target. They are
# compiled with the same options; an executable is compiled as a library is, which costs it nothing on x86-64.
function(torch_tile_read_precompiled target from)
  if(TORCH_TILE_PRECOMPILE)
    target_precompile_headers(${target} REUSE_FROM ${from})
    target_compile_options(${target} PRIVATE -fPIC)
  endif()
endfunction()

# Options of the files that make or read a precompiled header, for ccache.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  set(TORCH_TILE_PRECOMPILE_OPTIONS -fpch-preprocess)
else()
  set(TORCH_TILE_PRECOMPILE_OPTIONS "SHELL:-Xclang -fno-pch-timestamp")
endif()
