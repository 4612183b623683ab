#include "runtime/executor/RefusedInput.h"

namespace torch_tile::runtime {

std::string reasonAgainst(const at::Tensor &tensor, c10::Device device) {
  if (!tensor.defined())
    return "is no tensor";
  c10::DispatchKeySet keys = tensor.key_set();
  if (tensor.is_sparse() || tensor.unsafeGetTensorImpl()->is_sparse_compressed())
    return "is a sparse tensor; torch-tile takes dense tensors: call .to_dense()";
  if (tensor.is_mkldnn())
    return "is an MKL-DNN tensor; torch-tile takes dense tensors: call .to_dense()";
  if (tensor.is_quantized())
    return "is a quantized tensor; torch-tile takes plain ones: call .dequantize()";
  if (tensor.is_nested())
    return "is a nested tensor; torch-tile takes dense tensors: call .to_padded_tensor()";
  if (keys.has(c10::DispatchKey::FuncTorchBatched))
    return "belongs to torch.vmap; compile the function that calls it";
  if (keys.has(c10::DispatchKey::FuncTorchGradWrapper))
    return "belongs to a transform of torch.func; compile the function that calls it";
  if (keys.has(c10::DispatchKey::Python))
    return "is of a class that computes by itself (__torch_dispatch__); pass the tensors that it holds";
  if (tensor.is_meta())
    return "is on the meta device, where tensors have no values";
  bool isHere = tensor.is_cpu() || (device.is_cuda() && tensor.is_cuda());
  if (!isHere)
    return "is on " + tensor.device().str() + ", and the graph was compiled for " + device.str() + ": call .to('" +
           device.str() + "')";
  return "";
}

} // namespace torch_tile::runtime
