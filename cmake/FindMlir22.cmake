# LLVM and MLIR 22 as static archives. The imported MLIR targets carry libLLVM.so in their link interface, so archives are linked by path.
set(TORCH_TILE_LLVM_DIR /usr/lib/llvm-22 CACHE PATH "prefix of LLVM and MLIR 22")
list(APPEND CMAKE_PREFIX_PATH ${TORCH_TILE_LLVM_DIR})
# MLIR's version file refuses "22": ask without a version, then check.
find_package(MLIR REQUIRED CONFIG)
if(NOT LLVM_VERSION_MAJOR EQUAL 22)
  message(FATAL_ERROR "LLVM and MLIR 22 expected, got ${LLVM_VERSION}; install llvm-22-dev libmlir-22-dev mlir-22-tools or set TORCH_TILE_LLVM_DIR")
endif()
list(APPEND CMAKE_MODULE_PATH "${MLIR_CMAKE_DIR}" "${LLVM_CMAKE_DIR}")
include(TableGen)
include(AddLLVM)
include(AddMLIR)
separate_arguments(_llvm_definitions UNIX_COMMAND "${LLVM_DEFINITIONS}")

file(GLOB TORCH_TILE_MLIR_ARCHIVES ${LLVM_LIBRARY_DIR}/libMLIR*.a)
list(FILTER TORCH_TILE_MLIR_ARCHIVES EXCLUDE REGEX "CAPI|Test")
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set(_host_backend x86)
else()
  set(_host_backend aarch64)
endif()
execute_process(
  COMMAND ${LLVM_TOOLS_BINARY_DIR}/llvm-config --link-static --libfiles orcjit ${_host_backend} nvptx passes target bitreader linker ipo
  OUTPUT_VARIABLE TORCH_TILE_LLVM_ARCHIVES OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
separate_arguments(TORCH_TILE_LLVM_ARCHIVES UNIX_COMMAND "${TORCH_TILE_LLVM_ARCHIVES}")

# Everything on the compiler side is compiled like LLVM: no exceptions, RTTI as LLVM has it.
add_library(torch_tile_llvm INTERFACE)
target_include_directories(torch_tile_llvm SYSTEM INTERFACE ${LLVM_INCLUDE_DIRS} ${MLIR_INCLUDE_DIRS})
target_include_directories(torch_tile_llvm INTERFACE ${CMAKE_BINARY_DIR}/csrc)
target_compile_definitions(torch_tile_llvm INTERFACE ${_llvm_definitions})
target_compile_options(torch_tile_llvm INTERFACE -fno-exceptions -ffunction-sections -fdata-sections -Wall -Wno-comment)
# libstdc++ 12 takes memory for std::stable_sort by a function that it calls deprecated.
target_compile_options(torch_tile_llvm INTERFACE $<$<CXX_COMPILER_ID:Clang>:-Wno-deprecated-declarations>)
# MLIR's headers are ABI-sensitive to NDEBUG-like switches only through LLVM_ENABLE_ABI_BREAKING_CHECKS, which llvm-config.h fixes.

# MLIR's headers take longer to read than our code to compile: they are read once for all targets of the compiler side.
torch_tile_precompile(torch_tile_mlir_headers compiler/mlir_headers.h LINK torch_tile_llvm FACTS ${LLVM_PACKAGE_VERSION})

# What an executable or shared library of ours links: our static libraries, then the archives.
add_library(torch_tile_llvm_archives INTERFACE)
target_link_libraries(torch_tile_llvm_archives INTERFACE
  -Wl,--start-group ${TORCH_TILE_MLIR_ARCHIVES} ${TORCH_TILE_LLVM_ARCHIVES} -Wl,--end-group z zstd pthread dl m)
target_link_options(torch_tile_llvm_archives INTERFACE -B${LLVM_TOOLS_BINARY_DIR} -fuse-ld=lld -Wl,--gc-sections)

# torch_tile_add_library(name SOURCES... [TABLEGEN target...] [LINK lib...]): one static library per folder of csrc/compiler.
function(torch_tile_add_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;TABLEGEN;LINK" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC torch_tile_llvm ${ARG_LINK})
  torch_tile_read_precompiled(${name} torch_tile_mlir_headers)
  if(ARG_TABLEGEN)
    add_dependencies(${name} ${ARG_TABLEGEN})
  endif()
endfunction()
