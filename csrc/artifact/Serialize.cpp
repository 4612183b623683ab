#include "artifact/Serialize.h"

#include "artifact/ByteStream.h"
#include "artifact/Validate.h"

#include <algorithm>

namespace torch_tile::artifact {
namespace {

constexpr uint8_t magic[4] = {'T', 'T', 'A', 'F'};
constexpr uint32_t formatVersion = 10;
/// Says nothing of ranges. Sizes were taken to be at least 2.
constexpr uint32_t versionWithoutRanges = 9;
/// Argument trees of operator schemas are at most lists of lists.
constexpr int maxValueDepth = 8;

//===-- writing -------------------------------------------------------------------------------------------------===//

void write(ByteWriter &out, const std::vector<uint32_t> &ids) {
  out.unsignedInt(ids.size());
  for (uint32_t id : ids)
    out.unsignedInt(id);
}

void write(ByteWriter &out, const Value &value) {
  out.byte(static_cast<uint8_t>(value.kind));
  switch (value.kind) {
  case Value::Kind::None:
    return;
  case Value::Kind::Tensor:
  case Value::Kind::Int:
    return out.unsignedInt(value.ref);
  case Value::Kind::Float:
    return out.float64(value.number);
  case Value::Kind::Bool:
    return out.byte(value.number != 0);
  case Value::Kind::String:
  case Value::Kind::DType:
  case Value::Kind::Device:
  case Value::Kind::Layout:
  case Value::Kind::MemoryFormat:
    return out.text(value.text);
  case Value::Kind::Complex:
    out.float64(value.items[0].number);
    return out.float64(value.items[1].number);
  case Value::Kind::List:
    out.unsignedInt(value.items.size());
    for (const Value &item : value.items)
      write(out, item);
    return;
  }
}

void write(ByteWriter &out, const std::vector<Value> &args, const std::vector<Result> &results) {
  out.unsignedInt(args.size());
  for (const Value &arg : args)
    write(out, arg);
  out.unsignedInt(results.size());
  for (const Result &result : results) {
    out.byte(result.used);
    if (!result.used)
      continue;
    out.unsignedInt(result.slot);
    write(out, result.sizes);
    write(out, result.strides);
    out.byte(result.hasType);
    if (result.hasType)
      out.byte(static_cast<uint8_t>(result.type));
  }
}

void write(ByteWriter &out, const Alloc &step) {
  out.unsignedInt(step.slot);
  out.byte(static_cast<uint8_t>(step.type));
  write(out, step.sizes);
  write(out, step.strides);
}

void write(ByteWriter &out, const Free &step) { out.unsignedInt(step.slot); }

void write(ByteWriter &out, const Alias &step) {
  out.unsignedInt(step.result);
  out.unsignedInt(step.source);
  write(out, step.sizes);
  write(out, step.strides);
  out.unsignedInt(step.offset);
}

void write(ByteWriter &out, const Launch &step) {
  out.unsignedInt(step.kernel);
  write(out, step.pointers);
  write(out, step.written);
  write(out, step.integers);
  out.unsignedInt(step.numPrograms);
  write(out, step.grid);
  out.unsignedInt(step.programCostNs);
  out.unsignedInt(step.scratchBytes);
  out.unsignedInt(step.bytesMoved);
}

void write(ByteWriter &out, const Extern &step) {
  out.text(step.op);
  out.text(step.overload);
  write(out, step.args, step.results);
}

void write(ByteWriter &out, const PyCall &step) {
  out.unsignedInt(step.callable);
  write(out, step.args, step.results);
}

void write(ByteWriter &out, const Check &step) {
  out.unsignedInt(step.condition);
  out.text(step.message);
}

void write(ByteWriter &out, const Control &step) {
  out.byte(static_cast<uint8_t>(step.kind));
  write(out, step.bodies);
  out.unsignedInt(step.numCarried);
  out.unsignedInt(step.numSliced);
  write(out, step.args, step.results);
}

void write(ByteWriter &out, const Kernel &kernel) {
  out.text(kernel.name);
  out.text(kernel.symbol);
  out.text(kernel.target);
  out.unsignedInt(kernel.numThreads);
  out.unsignedInt(kernel.programsPerBlock);
  out.unsignedInt(kernel.sharedBytes);
  out.unsignedInt(kernel.alignedArguments.size());
  for (AlignedArgument argument : kernel.alignedArguments)
    out.unsignedInt(uint64_t(argument.index) * 2 + argument.isWritten);
  out.raw(kernel.hash.bytes, sizeof(kernel.hash.bytes));
  out.unsignedInt(kernel.code.size());
  out.raw(kernel.code.data(), kernel.code.size());
  out.unsignedInt(kernel.externalSymbols.size());
  for (const std::string &symbol : kernel.externalSymbols)
    out.text(symbol);
}

void write(ByteWriter &out, const Body &body) {
  out.unsignedInt(body.symbols.size());
  for (const std::string &symbol : body.symbols)
    out.text(symbol);
  out.unsignedInt(body.symbolSources.size());
  for (const SymbolSource &source : body.symbolSources) {
    out.byte(static_cast<uint8_t>(source.kind));
    out.unsignedInt(source.index);
    out.unsignedInt(source.dim);
    out.signedInt(source.least);
    out.signedInt(source.greatest);
  }
  out.unsignedInt(body.exprs.size());
  for (const Expr &expr : body.exprs) {
    out.unsignedInt(expr.size());
    for (const ExprInst &inst : expr) {
      out.byte(static_cast<uint8_t>(inst.op));
      if (inst.op == ExprOp::Constant || inst.op == ExprOp::Symbol)
        out.signedInt(inst.value);
    }
  }
  out.unsignedInt(body.numSlots);
  out.unsignedInt(body.sharedSlots.size());
  for (const SharedSlot &shared : body.sharedSlots) {
    out.unsignedInt(shared.slot);
    write(out, shared.places);
  }
  out.unsignedInt(body.inputs.size());
  for (const Input &input : body.inputs) {
    out.byte(static_cast<uint8_t>(input.kind));
    if (input.kind != Input::Kind::Tensor)
      continue;
    out.unsignedInt(input.slot);
    out.byte(static_cast<uint8_t>(input.type));
    write(out, input.sizes);
    write(out, input.strides);
  }
  out.unsignedInt(body.steps.size());
  for (const Step &step : body.steps) {
    out.byte(static_cast<uint8_t>(step.action.index()));
    std::visit([&](const auto &action) { write(out, action); }, step.action);
    write(out, step.lines);
  }
  out.unsignedInt(body.outputs.size());
  for (const Output &output : body.outputs) {
    out.byte(static_cast<uint8_t>(output.kind));
    if (output.kind != Output::Kind::None)
      out.unsignedInt(output.ref);
  }
}

//===-- reading -------------------------------------------------------------------------------------------------===//

/// Fills a vector from a count and `count` elements. Grows as elements arrive, so a lying count costs no memory.
template <typename T, typename ReadOne> void readVector(ByteReader &in, std::vector<T> &elements, ReadOne readOne) {
  size_t count = in.count();
  elements.clear();
  elements.reserve(std::min<size_t>(count, 256));
  for (size_t i = 0; i < count && !in.hasFailed(); ++i)
    readOne(elements.emplace_back());
}

void read(ByteReader &in, std::vector<uint32_t> &ids) {
  readVector(in, ids, [&](uint32_t &id) { id = in.unsignedInt32(); });
}

void read(ByteReader &in, Value &value, int depth) {
  value.kind = in.enumerator(Value::Kind::Complex, "argument kind");
  switch (value.kind) {
  case Value::Kind::None:
    return;
  case Value::Kind::Tensor:
  case Value::Kind::Int:
    value.ref = in.unsignedInt32();
    return;
  case Value::Kind::Float:
    value.number = in.float64();
    return;
  case Value::Kind::Bool:
    value.number = in.byte() != 0;
    return;
  case Value::Kind::String:
  case Value::Kind::DType:
  case Value::Kind::Device:
  case Value::Kind::Layout:
  case Value::Kind::MemoryFormat:
    value.text = in.text();
    return;
  case Value::Kind::Complex:
    value.items.resize(2);
    for (Value &part : value.items) {
      part.kind = Value::Kind::Float;
      part.number = in.float64();
    }
    return;
  case Value::Kind::List:
    if (depth == maxValueDepth)
      return in.fail("argument nested too deeply");
    readVector(in, value.items, [&](Value &item) { read(in, item, depth + 1); });
    return;
  }
}

void read(ByteReader &in, std::vector<Value> &args, std::vector<Result> &results) {
  readVector(in, args, [&](Value &arg) { read(in, arg, 0); });
  readVector(in, results, [&](Result &result) {
    result.used = in.byte() != 0;
    if (!result.used)
      return;
    result.slot = in.unsignedInt32();
    read(in, result.sizes);
    read(in, result.strides);
    result.hasType = in.byte() != 0;
    if (result.hasType)
      result.type = in.enumerator(ElementType::Float4E2M1FNx2, "element type");
  });
}

void read(ByteReader &in, Alloc &step) {
  step.slot = in.unsignedInt32();
  step.type = in.enumerator(ElementType::Float4E2M1FNx2, "element type");
  read(in, step.sizes);
  read(in, step.strides);
}

void read(ByteReader &in, Free &step) { step.slot = in.unsignedInt32(); }

void read(ByteReader &in, Alias &step) {
  step.result = in.unsignedInt32();
  step.source = in.unsignedInt32();
  read(in, step.sizes);
  read(in, step.strides);
  step.offset = in.unsignedInt32();
}

void read(ByteReader &in, Launch &step) {
  step.kernel = in.unsignedInt32();
  read(in, step.pointers);
  read(in, step.written);
  read(in, step.integers);
  step.numPrograms = in.unsignedInt32();
  read(in, step.grid);
  step.programCostNs = in.unsignedInt32();
  step.scratchBytes = in.unsignedInt32();
  step.bytesMoved = in.unsignedInt32();
}

void read(ByteReader &in, Extern &step) {
  step.op = in.text();
  step.overload = in.text();
  read(in, step.args, step.results);
}

void read(ByteReader &in, PyCall &step) {
  step.callable = in.unsignedInt32();
  read(in, step.args, step.results);
}

void read(ByteReader &in, Check &step) {
  step.condition = in.unsignedInt32();
  step.message = in.text();
}

void read(ByteReader &in, Control &step) {
  step.kind = in.enumerator(Control::Kind::Scan, "control flow");
  read(in, step.bodies);
  step.numCarried = in.unsignedInt32();
  step.numSliced = in.unsignedInt32();
  read(in, step.args, step.results);
}

/// Reads the alternative that the leading byte names.
template <size_t index = 0> void readAction(ByteReader &in, decltype(Step::action) &action, uint8_t wanted) {
  if constexpr (index < std::variant_size_v<decltype(Step::action)>) {
    if (wanted == index)
      return read(in, action.emplace<index>());
    return readAction<index + 1>(in, action, wanted);
  } else {
    in.fail("unknown step " + std::to_string(wanted));
  }
}

void read(ByteReader &in, Kernel &kernel) {
  kernel.name = in.text();
  kernel.symbol = in.text();
  kernel.target = in.text();
  kernel.numThreads = in.unsignedInt32();
  kernel.programsPerBlock = in.unsignedInt32();
  kernel.sharedBytes = in.unsignedInt32();
  readVector(in, kernel.alignedArguments, [&](AlignedArgument &argument) {
    uint32_t packed = in.unsignedInt32();
    argument = {packed / 2, packed % 2 != 0};
  });
  std::span<const uint8_t> hash = in.raw(sizeof(kernel.hash.bytes));
  std::copy(hash.begin(), hash.end(), kernel.hash.bytes);
  std::span<const uint8_t> code = in.raw(in.count());
  kernel.code.assign(code.begin(), code.end());
  readVector(in, kernel.externalSymbols, [&](std::string &symbol) { symbol = in.text(); });
}

void read(ByteReader &in, Body &body, uint64_t version) {
  readVector(in, body.symbols, [&](std::string &symbol) { symbol = in.text(); });
  readVector(in, body.symbolSources, [&](SymbolSource &source) {
    source.kind = in.enumerator(SymbolSource::Kind::ExternResult, "symbol source");
    source.index = in.unsignedInt32();
    source.dim = in.unsignedInt32();
    if (version == versionWithoutRanges) {
      bool isBacked = body.symbols[&source - body.symbolSources.data()].starts_with('s');
      source.least = source.kind == SymbolSource::Kind::Size && isBacked ? 2 : source.least;
      return;
    }
    source.least = in.signedInt();
    source.greatest = in.signedInt();
  });
  readVector(in, body.exprs, [&](Expr &expr) {
    readVector(in, expr, [&](ExprInst &inst) {
      inst.op = in.enumerator(ExprOp::FloatRoundDecimal, "size operation");
      if (inst.op == ExprOp::Constant || inst.op == ExprOp::Symbol)
        inst.value = in.signedInt();
    });
  });
  body.numSlots = in.unsignedInt32();
  readVector(in, body.sharedSlots, [&](SharedSlot &shared) {
    shared.slot = in.unsignedInt32();
    read(in, shared.places);
  });
  readVector(in, body.inputs, [&](Input &input) {
    input.kind = in.enumerator(Input::Kind::Int, "input kind");
    if (input.kind != Input::Kind::Tensor)
      return;
    input.slot = in.unsignedInt32();
    input.type = in.enumerator(ElementType::Float4E2M1FNx2, "element type");
    read(in, input.sizes);
    read(in, input.strides);
  });
  readVector(in, body.steps, [&](Step &step) {
    readAction(in, step.action, in.byte());
    read(in, step.lines);
  });
  readVector(in, body.outputs, [&](Output &output) {
    output.kind = in.enumerator(Output::Kind::None, "output kind");
    if (output.kind != Output::Kind::None)
      output.ref = in.unsignedInt32();
  });
}

void read(ByteReader &in, Artifact &artifact, uint64_t version) {
  artifact.compilerVersion = in.text();
  artifact.target = in.text();
  readVector(in, artifact.kernels, [&](Kernel &kernel) { read(in, kernel); });
  read(in, static_cast<Body &>(artifact), version);
  readVector(in, artifact.bodies, [&](Body &body) { read(in, body, version); });
}

} // namespace

std::vector<uint8_t> serialize(const Artifact &artifact) {
  ByteWriter out;
  out.raw(magic, sizeof(magic));
  out.unsignedInt(formatVersion);
  out.text(artifact.compilerVersion);
  out.text(artifact.target);
  out.unsignedInt(artifact.kernels.size());
  for (const Kernel &kernel : artifact.kernels)
    write(out, kernel);
  write(out, static_cast<const Body &>(artifact));
  out.unsignedInt(artifact.bodies.size());
  for (const Body &body : artifact.bodies)
    write(out, body);
  return out.take();
}

Status deserialize(std::span<const uint8_t> bytes, Artifact &artifact) {
  artifact = {};
  ByteReader in(bytes);
  std::span<const uint8_t> head = in.raw(sizeof(magic));
  if (!in.hasFailed() && !std::equal(head.begin(), head.end(), magic))
    in.fail("not an artifact: wrong magic word");
  uint64_t version = in.unsignedInt();
  if (!in.hasFailed() && version != formatVersion && version != versionWithoutRanges)
    in.fail("expected artifact format " + std::to_string(formatVersion) + ", got " + std::to_string(version));
  if (!in.hasFailed())
    read(in, artifact, version);
  if (!in.hasFailed() && !in.isAtEnd())
    in.fail("trailing bytes");
  if (in.hasFailed()) {
    artifact = {};
    return Status::invalidInput("artifact", in.failure());
  }
  Status status = validate(artifact);
  if (!status.isOk())
    artifact = {};
  return status;
}

} // namespace torch_tile::artifact
