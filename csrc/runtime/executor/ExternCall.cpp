#include "runtime/executor/ExternCall.h"

#include <ATen/ScalarOps.h>
#include <ATen/core/List.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/jit_type.h>

#include <unordered_map>

namespace torch_tile::runtime {

using artifact::ElementType;
using artifact::Value;

namespace {

/// The first name of a type is the one torch prints.
constexpr std::pair<const char *, at::ScalarType> scalarTypes[] = {
    {"float64", at::kDouble},
    {"double", at::kDouble},
    {"float32", at::kFloat},
    {"float", at::kFloat},
    {"float16", at::kHalf},
    {"half", at::kHalf},
    {"bfloat16", at::kBFloat16},
    {"int64", at::kLong},
    {"long", at::kLong},
    {"int32", at::kInt},
    {"int", at::kInt},
    {"int16", at::kShort},
    {"short", at::kShort},
    {"int8", at::kChar},
    {"uint8", at::kByte},
    {"bool", at::kBool},
    {"float8_e4m3fn", at::kFloat8_e4m3fn},
    {"float8_e5m2", at::kFloat8_e5m2},
    {"float8_e4m3fnuz", at::kFloat8_e4m3fnuz},
    {"float8_e5m2fnuz", at::kFloat8_e5m2fnuz},
    {"float8_e8m0fnu", at::kFloat8_e8m0fnu},
    {"float4_e2m1fn_x2", at::kFloat4_e2m1fn_x2},
    {"quint8", at::kQUInt8},
    {"qint8", at::kQInt8},
    {"qint32", at::kQInt32},
    {"complex32", at::kComplexHalf},
    {"chalf", at::kComplexHalf},
    {"complex64", at::kComplexFloat},
    {"cfloat", at::kComplexFloat},
    {"complex128", at::kComplexDouble},
    {"cdouble", at::kComplexDouble},
    {"uint16", at::kUInt16},
    {"uint32", at::kUInt32},
    {"uint64", at::kUInt64},
};

at::Layout parseLayout(const std::string &name) {
  static const std::unordered_map<std::string, at::Layout> layouts = {
      {"strided", at::kStrided},      {"sparse_coo", at::kSparse},    {"sparse_csr", at::kSparseCsr},
      {"sparse_csc", at::kSparseCsc}, {"sparse_bsr", at::kSparseBsr}, {"sparse_bsc", at::kSparseBsc},
      {"_mkldnn", at::kMkldnn},       {"jagged", at::kJagged},
  };
  auto it = layouts.find(name);
  TORCH_CHECK(it != layouts.end(), "unknown layout torch.", name);
  return it->second;
}

at::MemoryFormat parseMemoryFormat(const std::string &name) {
  static const std::unordered_map<std::string, at::MemoryFormat> formats = {
      {"contiguous_format", at::MemoryFormat::Contiguous},
      {"preserve_format", at::MemoryFormat::Preserve},
      {"channels_last", at::MemoryFormat::ChannelsLast},
      {"channels_last_3d", at::MemoryFormat::ChannelsLast3d},
  };
  auto it = formats.find(name);
  TORCH_CHECK(it != formats.end(), "unknown memory format torch.", name);
  return it->second;
}

/// Where tensors and sizes of the running call are found; null slots while loading.
struct Environment {
  const at::Tensor *slots;
  const int64_t *values;
};

c10::TypePtr withoutOptional(const c10::TypePtr &type) {
  if (auto optional = type->cast<c10::OptionalType>())
    return optional->getElementType();
  return type;
}

c10::IValue build(const Value &value, const c10::TypePtr &declared, const Environment &env);

template <typename T, typename Convert>
c10::IValue buildList(const std::vector<Value> &items, const c10::TypePtr &element, const Environment &env,
                      Convert convert) {
  c10::List<T> list;
  list.reserve(items.size());
  for (const Value &item : items)
    list.push_back(convert(build(item, element, env)));
  return list;
}

c10::IValue buildList(const std::vector<Value> &items, const c10::TypePtr &element, const Environment &env) {
  switch (element->kind()) {
  case c10::TypeKind::IntType:
    return buildList<int64_t>(items, element, env, [](c10::IValue v) { return v.toInt(); });
  case c10::TypeKind::FloatType:
    return buildList<double>(items, element, env, [](c10::IValue v) { return v.toDouble(); });
  case c10::TypeKind::BoolType:
    return buildList<bool>(items, element, env, [](c10::IValue v) { return v.toBool(); });
  case c10::TypeKind::TensorType:
    return buildList<at::Tensor>(items, element, env, [](c10::IValue v) { return std::move(v).toTensor(); });
  default:
    break;
  }
  c10::impl::GenericList list(element);
  list.reserve(items.size());
  for (const Value &item : items)
    list.push_back(build(item, element, env));
  return list;
}

/// A number given for a tensor: 0-d, and takes part in type promotion as the number would.
at::Tensor wrapNumber(const at::Scalar &number) {
  at::Tensor wrapped = c10::scalar_to_tensor(number);
  wrapped.unsafeGetTensorImpl()->set_wrapped_number(true);
  return wrapped;
}

/// The argument in the representation that boxed kernels expect for the schema's type.
c10::IValue build(const Value &value, const c10::TypePtr &declared, const Environment &env) {
  // From Python, None for a tensor that is not optional is an undefined one: what attention on CUDA saves has such.
  if (value.kind == Value::Kind::None)
    return declared->kind() == c10::TypeKind::TensorType ? c10::IValue(at::Tensor()) : c10::IValue();
  c10::TypePtr type = withoutOptional(declared);
  if (auto list = type->cast<c10::ListType>()) {
    if (value.kind == Value::Kind::List)
      return buildList(value.items, list->getElementType(), env);
    return buildList({value}, list->getElementType(), env); // "int[1] dim" accepts a plain int
  }
  switch (value.kind) {
  case Value::Kind::None:
    break;
  case Value::Kind::Tensor:
    return env.slots[value.ref];
  case Value::Kind::Int:
    if (type->kind() == c10::TypeKind::FloatType)
      return static_cast<double>(env.values[value.ref]);
    if (type->kind() == c10::TypeKind::BoolType)
      return env.values[value.ref] != 0;
    if (type->kind() == c10::TypeKind::TensorType)
      return wrapNumber(env.values[value.ref]);
    return env.values[value.ref];
  case Value::Kind::Float:
    if (type->kind() == c10::TypeKind::TensorType)
      return wrapNumber(value.number);
    return value.number;
  case Value::Kind::Bool:
    if (type->kind() == c10::TypeKind::TensorType)
      return wrapNumber(value.number != 0);
    return value.number != 0;
  case Value::Kind::String:
    return value.text;
  case Value::Kind::DType:
    return parseScalarType(value.text);
  case Value::Kind::Device:
    return c10::Device(value.text);
  case Value::Kind::Layout:
    return parseLayout(value.text);
  case Value::Kind::MemoryFormat:
    return parseMemoryFormat(value.text);
  case Value::Kind::Complex: {
    c10::complex<double> number(value.items[0].number, value.items[1].number);
    if (type->kind() == c10::TypeKind::TensorType)
      return wrapNumber(number);
    return number;
  }
  case Value::Kind::List: {
    c10::impl::GenericList list(c10::AnyType::get());
    for (const Value &item : value.items)
      list.push_back(build(item, c10::AnyType::get(), env));
    return list;
  }
  }
  return {};
}

bool isNumber(const Value &value) {
  return value.kind == Value::Kind::Int || value.kind == Value::Kind::Float || value.kind == Value::Kind::Bool ||
         value.kind == Value::Kind::Complex;
}

/// Tensors, and numbers given for tensors, are made for each call: an operator may write to them or give them back.
bool isConstant(const Value &value, const c10::TypePtr &declared, const SizeProgram &sizes) {
  c10::TypePtr type = withoutOptional(declared);
  if (auto list = type->cast<c10::ListType>())
    type = withoutOptional(list->getElementType());
  if (value.kind == Value::Kind::Tensor || (isNumber(value) && type->kind() == c10::TypeKind::TensorType))
    return false;
  if (value.kind == Value::Kind::Int)
    return sizes.isConstant(value.ref);
  return std::all_of(value.items.begin(), value.items.end(),
                     [&](const Value &item) { return isConstant(item, type, sizes); });
}

void collectSlots(const Value &value, std::vector<uint32_t> &slots) {
  if (value.kind == Value::Kind::Tensor)
    slots.push_back(value.ref);
  for (const Value &item : value.items)
    collectSlots(item, slots);
}

c10::OperatorHandle findOperator(const artifact::Extern &step) {
  auto op = c10::Dispatcher::singleton().findSchema({step.op, step.overload});
  TORCH_CHECK(op, "operator '", step.op, step.overload.empty() ? "" : ".", step.overload,
              "' is not registered; import the library that defines it");
  return *op;
}

} // namespace

at::ScalarType parseScalarType(const std::string &name) {
  for (const auto &[known, type] : scalarTypes)
    if (name == known)
      return type;
  TORCH_CHECK(false, "unknown dtype torch.", name);
}

const char *scalarTypeName(at::ScalarType type) {
  for (const auto &[name, known] : scalarTypes)
    if (type == known)
      return name;
  return c10::toString(type);
}

at::ScalarType toScalarType(ElementType type) {
  static constexpr at::ScalarType types[] = {at::kDouble,
                                             at::kFloat,
                                             at::kHalf,
                                             at::kBFloat16,
                                             at::kLong,
                                             at::kInt,
                                             at::kShort,
                                             at::kChar,
                                             at::kByte,
                                             at::kBool,
                                             at::kFloat8_e4m3fn,
                                             at::kFloat8_e5m2,
                                             at::kComplexFloat,
                                             at::kComplexDouble,
                                             at::kUInt16,
                                             at::kUInt32,
                                             at::kUInt64,
                                             at::kComplexHalf,
                                             at::kFloat8_e4m3fnuz,
                                             at::kFloat8_e5m2fnuz,
                                             at::kFloat8_e8m0fnu,
                                             at::kFloat4_e2m1fn_x2};
  return types[static_cast<size_t>(type)];
}

ExternCall::ExternCall(const artifact::Extern &step, const SizeProgram &sizes, MatmulLibrary matmul)
    : op(findOperator(step)), direct(findMatrixProduct(op.operator_name(), matmul)),
      displayName(step.op + (step.overload.empty() ? "" : "." + step.overload)) {
  const std::vector<c10::Argument> &declared = op.schema().arguments();
  TORCH_CHECK(declared.size() == step.args.size(), "operator '", displayName, "' expected ", declared.size(),
              " arguments, got ", step.args.size());
  Environment constants{nullptr, sizes.constants().data()};
  for (size_t i = 0; i < declared.size(); ++i) {
    const Value &value = step.args[i];
    if (const c10::AliasInfo *alias = declared[i].alias_info(); alias && alias->isWrite())
      collectSlots(value, written);
    Argument &argument = arguments.emplace_back();
    argument.ref = value.ref;
    argument.type = declared[i].type();
    c10::TypeKind kind = withoutOptional(argument.type)->kind();
    if (isConstant(value, argument.type, sizes)) {
      argument.kind = Argument::Kind::Constant;
      argument.constant = build(value, argument.type, constants);
    } else if (value.kind == Value::Kind::Tensor && kind != c10::TypeKind::ListType) {
      argument.kind = Argument::Kind::Tensor;
    } else if (value.kind == Value::Kind::Int && kind == c10::TypeKind::IntType) {
      argument.kind = Argument::Kind::Int;
    } else {
      argument.kind = Argument::Kind::Tree;
      argument.tree = value;
    }
  }
}

void ExternCall::call(const at::Tensor *slots, const int64_t *values, torch::jit::Stack &stack,
                      const PackedWeight *weight) const {
  stack.reserve(arguments.size());
  for (const Argument &argument : arguments) {
    switch (argument.kind) {
    case Argument::Kind::Constant:
      stack.push_back(argument.constant);
      break;
    case Argument::Kind::Tensor:
      stack.emplace_back(slots[argument.ref]);
      break;
    case Argument::Kind::Int:
      stack.emplace_back(values[argument.ref]);
      break;
    case Argument::Kind::Tree:
      stack.push_back(build(argument.tree, argument.type, {slots, values}));
      break;
    }
  }
  if (weight && weight->call(stack))
    return;
  if (!direct || !direct(stack))
    op.callBoxed(stack);
}

} // namespace torch_tile::runtime
