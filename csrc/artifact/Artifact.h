// What the compiler hands to the runtime: kernels, a step program over tensor slots, and programs for sizes.
// Plain data; Serialize.h turns it into bytes and back.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace torch_tile::artifact {

enum class ElementType : uint8_t {
  Float64,
  Float32,
  Float16,
  BFloat16,
  Int64,
  Int32,
  Int16,
  Int8,
  UInt8,
  Bool,
  Float8E4M3FN,
  Float8E5M2,
  Complex64,
  Complex128,
  UInt16,
  UInt32,
  UInt64,
  Complex32,
  Float8E4M3FNUZ,
  Float8E5M2FNUZ,
  Float8E8M0FNU,
  Float4E2M1FNx2, // two to a byte, which is the element
};

/// BLAKE3 of everything that determines a kernel's code.
struct Hash {
  uint8_t bytes[32] = {};
  bool operator==(const Hash &) const = default;
};

using SlotId = uint32_t; // a tensor held by the running program
using ExprId = uint32_t; // index into Body::exprs

//===-- sizes ---------------------------------------------------------------------------------------------------===//

enum class ExprOp : uint8_t {
  Constant,
  Symbol,
  Add,
  Mul,
  FloorDiv,
  Mod,
  PythonMod,
  CleanDiv,
  TruncDiv,
  Min,
  Max,
  CeilDiv,
  // On the bits of doubles, as support/SizeExpr.h has them.
  IntTrueDiv,
  FloatAdd,
  FloatMul,
  FloatTrueDiv,
  FloatPow,
  FloatMin,
  FloatMax,
  FloatToInt,
  FloatUnary,
  FloatRoundDecimal
};

/// Postfix: Constant pushes `value`, Symbol pushes symbol number `value`, the rest pop two and push one.
struct ExprInst {
  ExprOp op;
  int64_t value = 0;
};
using Expr = std::vector<ExprInst>;

/// Where the value of a symbol comes from when the program is called.
struct SymbolSource {
  enum class Kind : uint8_t { Scalar, Size, Stride, ExternResult } kind = Kind::Scalar;
  uint32_t index = 0; // input number; for ExternResult the slot
  uint32_t dim = 0;   // Size, Stride
  /// What the compiler took the value to lie between: kernels may reach beyond memory for others.
  int64_t least = INT64_MIN, greatest = INT64_MAX;
};

//===-- kernels -------------------------------------------------------------------------------------------------===//

/// A pointer argument that a kernel for GPU takes to be a multiple of 16.
struct AlignedArgument {
  uint32_t index = 0;
  bool isWritten = false;
};

struct Kernel {
  std::string name;              // for people: names the ops it does
  std::string symbol;            // in the object
  std::string target;            // "cpu" or "sm_90", ...
  uint32_t numThreads = 0;       // of a block, on GPU
  uint32_t programsPerBlock = 1; // more than one: the kernel takes their number as its last argument
  uint32_t sharedBytes = 0; // of a block, beside what the code itself declares; the code says it too (LaunchNote.h)
  std::vector<AlignedArgument> alignedArguments;
  Hash hash;
  std::vector<uint8_t> code; // ELF object, cubin or PTX; empty when it lives in the kernel store under `hash`
  std::vector<std::string> externalSymbols; // functions the code calls
};

//===-- steps ---------------------------------------------------------------------------------------------------===//

struct Alloc {
  SlotId slot = 0;
  ElementType type = ElementType::Float32;
  std::vector<ExprId> sizes, strides;
};

struct Free {
  SlotId slot = 0;
};

/// `result` shares the storage of `source`; `offset` is in elements relative to the offset of `source`.
struct Alias {
  SlotId result = 0, source = 0;
  std::vector<ExprId> sizes, strides;
  ExprId offset = 0;
};

struct Launch {
  uint32_t kernel = 0;
  std::vector<SlotId> pointers;
  std::vector<uint32_t> written; // which of them
  std::vector<ExprId> integers;
  ExprId numPrograms = 0;
  std::vector<ExprId> grid; // on GPU, sizes along x, y and z; empty if the programs are numbered along x alone
  ExprId programCostNs = 0; // estimate for one program; decides how many go to one task
  ExprId scratchBytes = 0;
  /// Bytes read and written by the whole launch, for reports.
  ExprId bytesMoved = 0;
};

/// One argument of an extern call, a tree.
struct Value {
  enum class Kind : uint8_t {
    None,
    Tensor,
    Int,
    Float,
    Bool,
    String,
    DType,
    Device,
    Layout,
    MemoryFormat,
    List,
    Complex
  } kind = Kind::None;
  uint32_t ref = 0;         // Tensor: slot; Int: ExprId
  double number = 0;        // Float; Bool as 0 or 1
  std::string text;         // String, DType, Device, Layout, MemoryFormat: torch's name without "torch."
  std::vector<Value> items; // List; Complex: two Floats, the real and the imaginary part
};

/// What to do with one flattened result of an extern call.
struct Result {
  bool used = false;
  SlotId slot = 0;
  /// Checked against what the call returned; a tensor of other strides is copied to these.
  std::vector<ExprId> sizes, strides;
  bool hasType = false; // else nothing is said of its elements
  ElementType type = ElementType::Float32;
};

/// A dispatcher call.
struct Extern {
  std::string op, overload;
  std::vector<Value> args; // one per schema argument
  std::vector<Result> results;
};

/// A Python callable that the loading side supplies; such artifacts are not written to disk.
struct PyCall {
  uint32_t callable = 0;
  std::vector<Value> args;
  std::vector<Result> results;
};

/// Pass or fail: `condition` is nonzero, else RuntimeError with `message`.
struct Check {
  ExprId condition = 0;
  std::string message;
};

/// Runs nested programs: control flow. `args` are values carried from one iteration to the next, then tensors taken
/// apart along dimension 0, then what each iteration takes as it is. A body takes them in this order.
struct Control {
  enum class Kind : uint8_t {
    Call,       // results of the only body
    Cond,       // args[0] chooses one of two bodies, which take the other ones
    While,      // the first body says whether the second one runs once more; the values carried at last
    WhileStack, // the same; what was carried after each iteration, stacked
    Map,        // the body's results for each slice, stacked
    Scan        // the body gives new carried values and results: the last carried ones and the results, stacked
  } kind = Kind::Call;
  std::vector<uint32_t> bodies; // of the artifact
  uint32_t numCarried = 0, numSliced = 0;
  std::vector<Value> args;
  std::vector<Result> results;
};

struct Step {
  std::variant<Alloc, Free, Alias, Launch, Extern, PyCall, Check, Control> action;
  std::vector<uint32_t> lines; // lines of the graph text this step came from
};

/// A slot that may hold the memory of another one: the pieces of memory among which its own is. Pieces have numbers.
struct SharedSlot {
  SlotId slot = 0;
  std::vector<uint32_t> places;
};

//===-- the whole -----------------------------------------------------------------------------------------------===//

struct Input {
  enum class Kind : uint8_t { Tensor, Int } kind = Kind::Tensor;
  SlotId slot = 0; // Tensor
  ElementType type = ElementType::Float32;
  std::vector<ExprId> sizes, strides; // what the program was compiled for
};

struct Output {
  enum class Kind : uint8_t { Tensor, Int, None } kind = Kind::Tensor;
  uint32_t ref = 0; // slot or ExprId
};

/// Steps with slots, symbols and expressions of their own.
struct Body {
  std::vector<std::string> symbols;
  std::vector<SymbolSource> symbolSources; // same length as symbols
  std::vector<Expr> exprs;
  uint32_t numSlots = 0;
  std::vector<SharedSlot> sharedSlots; // slots that are not listed share memory with none
  std::vector<Input> inputs;
  std::vector<Step> steps;
  std::vector<Output> outputs;
};

struct Artifact : Body {
  std::string compilerVersion;
  std::string target;
  std::vector<Kernel> kernels; // of all bodies
  /// What Control steps run. A body runs bodies before it alone, so nothing runs itself.
  std::vector<Body> bodies;

  template <typename Visit> void forEachBody(Visit &&visit) const {
    visit(static_cast<const Body &>(*this));
    for (const Body &body : bodies)
      visit(body);
  }
};

} // namespace torch_tile::artifact
