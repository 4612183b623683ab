#include "artifact/Serialize.h"

#include <charconv>
#include <concepts>
#include <string_view>

namespace torch_tile::artifact {
namespace {

const char *name(ElementType type) {
  static constexpr const char *names[] = {
      "f64",  "f32",          "f16",        "bf16",       "i64",          "i32",          "i16",  "i8",
      "ui8",  "i1",           "f8E4M3FN",   "f8E5M2",     "complex<f32>", "complex<f64>", "ui16", "ui32",
      "ui64", "complex<f16>", "f8E4M3FNUZ", "f8E5M2FNUZ", "f8E8M0FNU",    "f4E2M1FN"};
  return names[static_cast<size_t>(type)];
}

/// What a stream would do, without one: streams need the C++ library's locales, of which a library that was linked with
/// its own copy of them has none.
class Text {
public:
  Text &operator<<(std::string_view part) {
    text += part;
    return *this;
  }
  Text &operator<<(char c) {
    text += c;
    return *this;
  }
  template <typename Number>
    requires std::integral<Number> || std::floating_point<Number>
  Text &operator<<(Number number) {
    char digits[32];
    text.append(digits, std::to_chars(digits, digits + sizeof(digits), number).ptr);
    return *this;
  }
  std::string str() && { return std::move(text); }

private:
  std::string text;
};

class Printer {
public:
  Printer(const Artifact &whole, const Body &artifact) : whole(whole), artifact(artifact) {}

  std::string run() {
    out << artifact.numSlots << " slots\n";
    for (size_t i = 0; i < artifact.symbols.size(); ++i)
      printSymbol(i);
    for (size_t i = 0; i < artifact.inputs.size(); ++i) {
      const Input &input = artifact.inputs[i];
      out << "input " << i << ": ";
      if (input.kind == Input::Kind::Int)
        out << "int\n";
      else
        out << "%" << input.slot << " " << shape(input.type, input.sizes, input.strides) << "\n";
    }
    for (const SharedSlot &shared : artifact.sharedSlots) {
      out << "memory of %" << shared.slot << ":";
      for (uint32_t place : shared.places)
        out << " " << place;
      out << "\n";
    }
    for (const Step &step : artifact.steps) {
      out << "  ";
      std::visit([&](const auto &action) { print(action); }, step.action);
      for (size_t i = 0; i < step.lines.size(); ++i)
        out << (i ? ", " : "  // line ") << step.lines[i];
      out << "\n";
    }
    out << "return";
    for (size_t i = 0; i < artifact.outputs.size(); ++i)
      out << (i ? ", " : " ") << outputText(artifact.outputs[i]);
    out << "\n";
    return std::move(out).str();
  }

private:
  void printSymbol(size_t i) {
    const SymbolSource &source = artifact.symbolSources[i];
    out << "symbol " << artifact.symbols[i];
    if (source.least != INT64_MIN || source.greatest != INT64_MAX)
      out << " in [" << source.least << ", " << source.greatest << "]";
    out << " = ";
    switch (source.kind) {
    case SymbolSource::Kind::Scalar:
      out << "input " << source.index << "\n";
      return;
    case SymbolSource::Kind::Size:
      out << "size " << source.dim << " of input " << source.index << "\n";
      return;
    case SymbolSource::Kind::Stride:
      out << "stride " << source.dim << " of input " << source.index << "\n";
      return;
    case SymbolSource::Kind::ExternResult:
      out << "extern result %" << source.index << "\n";
      return;
    }
  }

  std::string outputText(const Output &output) const {
    if (output.kind == Output::Kind::None)
      return "none";
    return output.kind == Output::Kind::Tensor ? "%" + std::to_string(output.ref) : expr(output.ref);
  }

  /// Infix with parentheses around everything but leaves.
  std::string expr(ExprId id) const {
    std::vector<std::string> stack;
    for (const ExprInst &inst : artifact.exprs[id]) {
      if (inst.op == ExprOp::Constant) {
        stack.push_back(std::to_string(inst.value));
        continue;
      }
      if (inst.op == ExprOp::Symbol) {
        stack.push_back(artifact.symbols[inst.value]);
        continue;
      }
      std::string right = std::move(stack.back());
      stack.pop_back();
      std::string left = std::move(stack.back());
      stack.back() = binary(inst.op, left, right);
    }
    const std::string &text = stack.back();
    bool isWrapped = text.size() > 2 && text.front() == '(' && artifact.exprs[id].size() > 1;
    return isWrapped ? text.substr(1, text.size() - 2) : text;
  }

  static std::string binary(ExprOp op, const std::string &left, const std::string &right) {
    switch (op) {
    case ExprOp::Add:
      return "(" + left + " + " + right + ")";
    case ExprOp::Mul:
      return "(" + left + "*" + right + ")";
    case ExprOp::FloorDiv:
      return "(" + left + "//" + right + ")";
    case ExprOp::Mod:
      return "Mod(" + left + ", " + right + ")";
    case ExprOp::PythonMod:
      return "PythonMod(" + left + ", " + right + ")";
    case ExprOp::CleanDiv:
      return "CleanDiv(" + left + ", " + right + ")";
    case ExprOp::TruncDiv:
      return "TruncDiv(" + left + ", " + right + ")";
    case ExprOp::Min:
      return "Min(" + left + ", " + right + ")";
    case ExprOp::Max:
      return "Max(" + left + ", " + right + ")";
    case ExprOp::CeilDiv:
      return "CeilDiv(" + left + ", " + right + ")";
    case ExprOp::IntTrueDiv:
      return "IntTrueDiv(" + left + ", " + right + ")";
    case ExprOp::FloatAdd:
      return "FloatAdd(" + left + ", " + right + ")";
    case ExprOp::FloatMul:
      return "FloatMul(" + left + ", " + right + ")";
    case ExprOp::FloatTrueDiv:
      return "FloatDiv(" + left + ", " + right + ")";
    case ExprOp::FloatPow:
      return "FloatRaise(" + left + ", " + right + ")";
    case ExprOp::FloatMin:
      return "FloatMin(" + left + ", " + right + ")";
    case ExprOp::FloatMax:
      return "FloatMax(" + left + ", " + right + ")";
    case ExprOp::FloatToInt:
      return "FloatToInt(" + left + ", " + right + ")";
    case ExprOp::FloatUnary:
      return "FloatUnary(" + left + ", " + right + ")";
    case ExprOp::FloatRoundDecimal:
      return "FloatRound(" + left + ", " + right + ")";
    case ExprOp::Constant:
    case ExprOp::Symbol:
      break;
    }
    return "?";
  }

  std::string list(const std::vector<ExprId> &ids) const {
    std::string text;
    for (ExprId id : ids)
      text += (text.empty() ? "" : ", ") + expr(id);
    return "[" + text + "]";
  }

  std::string shape(ElementType type, const std::vector<ExprId> &sizes, const std::vector<ExprId> &strides) const {
    return std::string(name(type)) + " " + list(sizes) + " strides " + list(strides);
  }

  void print(const Alloc &step) {
    out << "%" << step.slot << " = alloc " << shape(step.type, step.sizes, step.strides);
  }

  void print(const Free &step) { out << "free %" << step.slot; }

  void print(const Alias &step) {
    out << "%" << step.result << " = alias %" << step.source << " " << list(step.sizes) << " strides "
        << list(step.strides) << " offset " << expr(step.offset);
  }

  void print(const Launch &step) {
    out << "launch " << whole.kernels[step.kernel].name << "(";
    for (size_t i = 0; i < step.pointers.size(); ++i)
      out << (i ? ", %" : "%") << step.pointers[i];
    for (size_t i = 0; i < step.integers.size(); ++i)
      out << (i ? ", " : "; ") << expr(step.integers[i]);
    out << ") programs " << expr(step.numPrograms);
    if (!step.grid.empty())
      out << " of grid " << list(step.grid);
    out << ", ns each " << expr(step.programCostNs) << ", scratch " << expr(step.scratchBytes) << ", moves "
        << expr(step.bytesMoved) << " bytes";
    for (size_t i = 0; i < step.written.size(); ++i)
      out << (i ? ", %" : ", writes %") << step.pointers[step.written[i]];
  }

  void print(const Value &value) {
    switch (value.kind) {
    case Value::Kind::None:
      out << "none";
      return;
    case Value::Kind::Tensor:
      out << "%" << value.ref;
      return;
    case Value::Kind::Int:
      out << expr(value.ref);
      return;
    case Value::Kind::Float:
      out << value.number << "f";
      return;
    case Value::Kind::Bool:
      out << (value.number != 0 ? "true" : "false");
      return;
    case Value::Kind::String:
      out << '"' << value.text << '"';
      return;
    case Value::Kind::DType:
    case Value::Kind::Device:
    case Value::Kind::Layout:
    case Value::Kind::MemoryFormat:
      out << value.text;
      return;
    case Value::Kind::Complex:
      out << "(" << value.items[0].number << " + " << value.items[1].number << "j)";
      return;
    case Value::Kind::List:
      out << "[";
      printAll(value.items);
      out << "]";
      return;
    }
  }

  void printAll(const std::vector<Value> &values) {
    for (size_t i = 0; i < values.size(); ++i) {
      out << (i ? ", " : "");
      print(values[i]);
    }
  }

  void printCall(const std::string &callee, const std::vector<Value> &args, const std::vector<Result> &results) {
    for (size_t i = 0; i < results.size(); ++i) {
      out << (i ? ", " : "");
      if (results[i].used)
        out << "%" << results[i].slot << " " << list(results[i].sizes);
      else
        out << "_";
    }
    out << (results.empty() ? "" : " = ") << callee << "(";
    printAll(args);
    out << ")";
  }

  void print(const Extern &step) {
    printCall("extern " + step.op + (step.overload.empty() ? "" : "." + step.overload), step.args, step.results);
  }

  void print(const PyCall &step) { printCall("pycall " + std::to_string(step.callable), step.args, step.results); }

  void print(const Check &step) { out << "check " << expr(step.condition) << " \"" << step.message << "\""; }

  void print(const Control &step) {
    static constexpr const char *names[] = {"call", "cond", "while", "while_stack", "map", "scan"};
    std::string callee = names[static_cast<size_t>(step.kind)];
    for (uint32_t body : step.bodies)
      callee += " @" + std::to_string(body);
    if (step.numCarried)
      callee += " carries " + std::to_string(step.numCarried);
    if (step.numSliced)
      callee += " slices " + std::to_string(step.numSliced);
    printCall(callee, step.args, step.results);
  }

  const Artifact &whole;
  const Body &artifact;
  Text out;
};

std::string shortHash(const Hash &hash) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string text;
  for (int i = 0; i < 6; ++i) {
    text += digits[hash.bytes[i] >> 4];
    text += digits[hash.bytes[i] & 15];
  }
  return text;
}

std::string kernelText(const Kernel &kernel) {
  Text out;
  out << kernel.name << " " << shortHash(kernel.hash) << " (" << kernel.target;
  if (kernel.numThreads)
    out << ", " << kernel.numThreads << " threads";
  if (kernel.sharedBytes)
    out << ", " << kernel.sharedBytes << " bytes of shared memory";
  out << ", " << kernel.code.size() << " bytes)\n";
  return std::move(out).str();
}

} // namespace

std::string print(const Artifact &artifact) {
  std::string text = "target " + artifact.target + "\n";
  for (size_t i = 0; i < artifact.kernels.size(); ++i)
    text += "kernel " + std::to_string(i) + ": " + kernelText(artifact.kernels[i]);
  text += Printer(artifact, artifact).run();
  for (size_t i = 0; i < artifact.bodies.size(); ++i)
    text += "body @" + std::to_string(i) + "\n" + Printer(artifact, artifact.bodies[i]).run();
  return text;
}

} // namespace torch_tile::artifact
