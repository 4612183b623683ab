// Reads at positions that tensors name.
#include "runtime/fx/OpCall.h"

namespace py = pybind11;

namespace torch_tile::runtime::fx {
namespace {

bool isIndexType(at::ScalarType dtype) { return dtype == at::kLong || dtype == at::kInt; }

const char *setIndexed(Call &call, const Value &x, std::span<const Value> indices, std::span<const int64_t> dims,
                       bool wrap) {
  if (x.type.rank() == 0)
    return "the indexed tensor is 0-d";
  for (const Value &index : indices)
    if (!isIndexType(index.type.dtype))
      return "an index is neither int64 nor int32";
  std::vector<Value> operands{x};
  operands.insert(operands.end(), indices.begin(), indices.end());
  call.set(
      call.importer.emit("index", operands, joinAttrs({dimsAttr("dims", dims), boolAttr("wrap", wrap)}), call.type()));
  return nullptr;
}

} // namespace

/// embedding(weight, indices, ...)
const char *importEmbedding(Call &call) {
  const Value *weight = call.tensor(0), *indices = call.tensor(1);
  if (!weight || !indices)
    return "expected a tensor operand";
  const int64_t dims[] = {0};
  return setIndexed(call, *weight, {indices, 1}, dims, /*wrap=*/false);
}

const char *importIndex(Call &call) {
  const Value *x = call.tensor(0);
  if (!x)
    return "expected a tensor operand";
  std::vector<Value> indices;
  std::vector<int64_t> dims;
  int64_t dim = 0;
  for (py::handle item : call.argument(1)) {
    if (!item.is_none()) {
      const Value *index = call.tensorOf(item);
      if (!index)
        return "expected tensors as indices";
      indices.push_back(*index);
      dims.push_back(dim);
    }
    ++dim;
  }
  return indices.empty() ? "it has no index" : setIndexed(call, *x, indices, dims, /*wrap=*/true);
}

const char *importIndexSelect(Call &call) {
  const Value *x = call.tensor(0), *index = call.tensor(2);
  if (!x || !index || index->type.rank() != 1)
    return "expected an index of one dimension";
  if (x->type.rank() == 0 && !index->type.sizes[0].isConstant(1))
    return "ATen takes one index of a tensor without dimensions";
  const int64_t dims[] = {call.dim(1, x->type.rank())};
  return setIndexed(call, *x, {index, 1}, dims, /*wrap=*/false);
}

const char *importGather(Call &call) {
  const Value *x = call.tensor(0), *index = call.tensor(2);
  if (!x || !index || x->type.rank() == 0 || index->type.rank() == 0)
    return "expected tensors of at least one dimension";
  if (!isIndexType(index->type.dtype))
    return "the index is neither int64 nor int32";
  const Value operands[] = {*x, *index};
  call.set(call.importer.emit("gather", operands, intAttr("dim", call.dim(1, x->type.rank())), call.type()));
  return nullptr;
}

} // namespace torch_tile::runtime::fx
