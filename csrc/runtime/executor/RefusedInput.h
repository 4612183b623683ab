// Tensors that kernels cannot read, in words.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

namespace torch_tile::runtime {

/// What keeps the kernels of a program for `device` from reading a tensor, and what the user can do, as the end of a
/// sentence that begins with the tensor. Empty where its kind is one that programs take.
std::string reasonAgainst(const at::Tensor &tensor, c10::Device device);

} // namespace torch_tile::runtime
