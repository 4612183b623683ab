// Products of float32 matrices on CPU by oneDNN, where it is the faster of the two libraries that torch brings.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <cstdint>
#include <string_view>

namespace torch_tile::runtime {

enum class MatmulLibrary : uint8_t {
  Auto,   // oneDNN where processor and shape are made for it
  Aten,   // what eager mode calls, with eager's bits
  OneDnn, // oneDNN wherever it can be called and has work to do
};

/// "auto", "aten" or "onednn"; throws on another name.
MatmulLibrary parseMatmulLibrary(std::string_view name);

/// Whether oneDNN multiplies float32 matrices under this setting, on this processor.
bool prefersOneDnn(MatmulLibrary library);

/// Takes the arguments of one operator from the stack and pushes its result; false if this call is not for it, with the
/// stack as it was.
using DirectCall = bool (*)(torch::jit::Stack &stack);

/// The call that replaces `op` (aten::mm, addmm, bmm, baddbmm), or null. On the Intel processors that MKL is written
/// for `Auto` leaves everything to it; on others MKL runs AVX2 code where oneDNN uses AVX-512, with half the
/// throughput.
DirectCall findMatrixProduct(const c10::OperatorName &op, MatmulLibrary library);

} // namespace torch_tile::runtime
