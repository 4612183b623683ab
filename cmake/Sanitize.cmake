# TORCH_TILE_SANITIZE=address;undefined or thread: our own code under a sanitizer. LLVM, torch and Python stay as they are, so
# a program that loads it takes the sanitizer's library by LD_PRELOAD (.ci/sanitize.sh).
set(TORCH_TILE_SANITIZE "" CACHE STRING "sanitizers of our code: address;undefined or thread")
if(TORCH_TILE_SANITIZE)
  list(JOIN TORCH_TILE_SANITIZE "," _sanitizers)
  # vptr needs type information of torch's and LLVM's classes, which is hidden in part. Memory is poisoned by hand in LLVM's
  # headers only, half of whose code is not instrumented: see allow_user_poisoning in .ci/sanitize.sh.
  set(_flags -fsanitize=${_sanitizers} -fno-omit-frame-pointer -g1)
  if("undefined" IN_LIST TORCH_TILE_SANITIZE)
    list(APPEND _flags -fno-sanitize=vptr -fno-sanitize-recover=undefined)
  endif()
  add_compile_options(${_flags})
  add_link_options(${_flags})
endif()
