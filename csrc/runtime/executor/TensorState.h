// A tensor as it was at one time, to tell whether another one is that tensor, unwritten since.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>
#include <c10/util/intrusive_ptr.h>

#include <cstdint>
#include <cstring>
#include <vector>

namespace torch_tile::runtime {

/// Keeps neither the tensor nor its memory alive, only their addresses from being used for others: whoever owns the
/// tensor may drop it, or swap it for another one. What torch does not count as a write (`p.data.add_(1)`, writes to
/// inference tensors) is seen where the content is kept, too.
class TensorState {
public:
  /// `keepsContent`: bytes are compared at each call. The tensor must be contiguous, on the CPU.
  explicit TensorState(const at::Tensor &tensor, bool keepsContent = false)
      : impl(tensor.unsafeGetTensorImpl()), weakImpl(tensor.getIntrusivePtr()), storageImpl(storageOf(*impl)),
        weakStorage(storageImpl ? impl->unsafe_storage().getWeakStorageImpl()
                                : WeakStorage(c10::intrusive_ptr<c10::StorageImpl>())),
        data(impl->data()), version(versionOf(*impl)) {
    if (keepsContent) {
      TORCH_CHECK(tensor.is_cpu() && tensor.is_contiguous(), "expected a contiguous tensor on the CPU, got one on ",
                  tensor.device(), " with strides ", tensor.strides());
      const auto *bytes = static_cast<const char *>(data);
      content.assign(bytes, bytes + tensor.nbytes());
    }
  }

  /// Some nanoseconds, and those of a comparison of bytes where the content is kept.
  bool isSame(const at::Tensor &tensor) const {
    c10::TensorImpl *given = tensor.unsafeGetTensorImpl();
    return given == impl && storageOf(*given) == storageImpl && given->data() == data && versionOf(*given) == version &&
           (content.empty() || std::memcmp(content.data(), data, content.size()) == 0);
  }
  /// Whether it is that tensor, whatever has been done to it.
  bool isOf(const at::Tensor &tensor) const { return tensor.unsafeGetTensorImpl() == impl; }
  bool isExpired() const { return weakImpl.expired(); }

private:
  using WeakStorage = c10::weak_intrusive_ptr<c10::StorageImpl>;

  static const c10::StorageImpl *storageOf(const c10::TensorImpl &tensor) {
    return tensor.has_storage() ? tensor.unsafe_storage().unsafeGetStorageImpl() : nullptr;
  }
  static uint32_t versionOf(c10::TensorImpl &tensor) {
    return tensor.is_inference() ? 0 : tensor.version_counter().current_version();
  }

  c10::TensorImpl *impl;
  c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl> weakImpl;
  const c10::StorageImpl *storageImpl;
  WeakStorage weakStorage;
  const void *data;
  uint32_t version;
  std::vector<char> content;
};

} // namespace torch_tile::runtime
