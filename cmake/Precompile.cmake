# Headers that many files include are read once: torch_tile_precompile makes a precompiled header, torch_tile_read_precompiled
# names a target whose files read it.
#
# Clang maps a precompiled header into memory. GCC reads all of it for each file, which takes as long as the headers
# themselves: TORCH_TILE_PRECOMPILE is off for GCC unless it is asked for.

# torch_tile_precompile(name header LINK target... [FACTS version...]): an object library of `header`, named as it is included,
# compiled with what the linked targets ask for. FACTS are versions of what the header includes; the header's own text,
# the compiler and its flags are known here.
function(torch_tile_precompile name header)
  cmake_parse_arguments(arg "" "" "LINK;FACTS" ${ARGN})
  if(NOT TORCH_TILE_PRECOMPILE)
    return()
  endif()
  string(REGEX REPLACE "\\.h$" ".cpp" _source ${header})
  add_library(${name} OBJECT ${PROJECT_SOURCE_DIR}/csrc/${_source})
  target_link_libraries(${name} PUBLIC ${arg_LINK})
  target_precompile_headers(${name} PRIVATE <${header}>)
  # For ccache. Clang's file names its checkout: what stands for it in keys is what it is made of (CCACHE_PCH_EXTSUM).
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${name} PRIVATE -fpch-preprocess)
  else()
    target_compile_options(${name} PRIVATE "SHELL:-Xclang -fno-pch-timestamp")
    file(SHA256 ${PROJECT_SOURCE_DIR}/csrc/${header} _text)
    file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/CMakeFiles/${name}.dir/cmake_pch.hxx.pch.sum
      "${_text} ${arg_FACTS} ${CMAKE_CXX_COMPILER_VERSION} ${CMAKE_CXX_FLAGS} ${CMAKE_BUILD_TYPE}")
    # Files of other targets wait for this target, since they do not wait for the objects of a library.
    add_custom_target(${name}_made DEPENDS ${CMAKE_CURRENT_BINARY_DIR}/CMakeFiles/${name}.dir/cmake_pch.hxx.pch)
  endif()
endfunction()

# torch_tile_read_precompiled(target from): both are compiled with the same options. An executable is compiled as a library
# is, which costs it nothing on x86-64.
function(torch_tile_read_precompiled target from)
  if(NOT TORCH_TILE_PRECOMPILE)
    return()
  endif()
  target_compile_options(${target} PRIVATE -fPIC)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${target} PRIVATE -fpch-preprocess)
    target_precompile_headers(${target} REUSE_FROM ${from})
  else()
    # REUSE_FROM names the folder in a way that ccache takes as part of the key, so checkouts would share nothing.
    get_target_property(_folder ${from} BINARY_DIR)
    target_compile_options(${target} PRIVATE
      "SHELL:-Xclang -fno-pch-timestamp" "SHELL:-include-pch ${_folder}/CMakeFiles/${from}.dir/cmake_pch.hxx.pch")
    add_dependencies(${target} ${from}_made)
  endif()
endfunction()
