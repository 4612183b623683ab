// Walks an ATen-level FX graph and prints it in the graph dialect.
#pragma once

#include "runtime/fx/GraphText.h"
#include "runtime/fx/Printing.h"
#include "runtime/fx/Sizes.h"
#include "runtime/fx/Value.h"

#include <pybind11/pybind11.h>

#include <deque>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace torch_tile::runtime::fx {

class Call;
struct OpRule;

/// An OpOverload, looked at once per process.
struct OpInfo {
  struct Argument {
    pybind11::object name;
    pybind11::object defaultValue;
    bool isWritten = false;
    bool isFloat = false;
  };
  struct Return {
    std::vector<size_t> viewed; // arguments whose memory it may be
    bool mayBeAnyArgument = false;
  };
  std::string name;     // aten::add
  std::string overload; // Tensor
  std::string fullName; // aten::add.Tensor
  std::vector<Argument> arguments;
  std::vector<Return> returns;
  const OpRule *rule = nullptr;
  bool isSeeded = false; // draws from a generator, so the order of such calls matters
};

/// The values of one FX node: one, or the flattened items of a list.
struct NodeValues {
  std::vector<Value> leaves;
  pybind11::object meta; // its meta["val"]
  bool isList = false;
};

/// What a graph and its subgraphs have in common.
struct Bodies {
  struct Text {
    std::string signature, body; // of a function, without its name
    std::vector<std::pair<int, std::string>> lines;
  };
  std::vector<Text> texts;
};

class Importer {
public:
  explicit Importer(pybind11::handle graphModule);
  /// Of a subgraph, which `name` is called in messages.
  Importer(pybind11::handle graphModule, Importer &parent, const std::string &name);
  GraphText run();

  bool isOnGpu() const { return device.is_cuda(); }

  /// Prints one op of one result and gives the value.
  Value emit(std::string_view op, std::span<const Value> operands, std::string_view attrs, TensorType type);
  Value emit(std::string_view op, std::initializer_list<Value> operands, std::string_view attrs, TensorType type) {
    return emit(op, std::span<const Value>(operands.begin(), operands.size()), attrs, std::move(type));
  }
  /// Prints one op of several tensor results.
  std::vector<Value> emitMany(std::string_view op, std::span<const Value> operands, std::string_view attrs,
                              std::vector<TensorType> types);
  /// Prints `%n:k = graph.op(operands) {attrs} : (types) -> (types)` and names `results`, whose types are read from
  /// them.
  void emitOutside(std::string_view op, std::span<const Value> operands, std::string_view attrs,
                   std::vector<Value> &results);

  /// Prints a check that ends the call with `message` where `condition` is 0; nothing if it holds anyway.
  void emitCheck(SizeExpr condition, std::string_view message);

  TensorType makeType(at::ScalarType dtype, std::vector<SizeExpr> sizes);
  TensorType makeType(at::ScalarType dtype, std::vector<SizeExpr> sizes, std::vector<SizeExpr> strides);
  TensorType scalarType(at::ScalarType dtype) { return makeType(dtype, {}); }
  TensorType withDtype(const TensorType &type, at::ScalarType dtype);

  Value cast(const Value &x, at::ScalarType dtype);
  Value full(const Scalar &value, const TensorType &type);

  /// Value for a meta["val"]: fake tensor, int, SymInt or None.
  Value valueOf(pybind11::handle meta);
  NodeValues valuesOf(pybind11::object meta);
  /// Null for a node without values.
  const NodeValues *find(pybind11::handle node) const;
  bool isNode(pybind11::handle object) const;
  pybind11::object metaOf(pybind11::handle node) const;
  SizeExpr storageOffset(const Value &value);

  void importExtern(pybind11::handle node, const OpInfo &op, std::span<const pybind11::handle> arguments,
                    const char *reason);
  void importPyCall(pybind11::handle node, const std::string &callee, const char *reason);
  /// A launch of a kernel given as text: `target.text`, with the arguments (kernel's arguments, grid, positions of
  /// those that are written). A string among the arguments is the number of a result, which is a new buffer.
  void importKernel(pybind11::handle node, pybind11::handle target);

  Sizes sizes;

private:
  /// What a subgraph needs besides its operands: tensors that its module holds, and sizes.
  struct Captured {
    std::vector<pybind11::object> constants;
    std::vector<Sizes::Symbol> symbols;
    bool contains(const Captured &other) const;
    void add(const Captured &other);
  };
  /// A subgraph once its text is made.
  struct Subgraph {
    std::string name;
    std::vector<Value> outputs;
    Captured captured;
    bool hasEffect = false, writesMemory = false;
  };
  /// What subgraphs add to the whole, to be taken back where they are not used.
  struct Mark {
    size_t numExterns, numCallables, numTexts;
  };
  Mark mark() const;
  void goBack(const Mark &mark);
  /// Null once the values of the node are set, else the reason why it is a call of Python.
  const char *importControl(pybind11::handle node, const std::string &op);
  /// Subgraphs that take the same operands, and what they capture.
  std::vector<Subgraph> importSubgraphs(const std::vector<pybind11::handle> &nodes, bool isFirstCondition);
  Subgraph importSubgraph(pybind11::handle node, const Captured &given, bool isCondition);
  void importNodes(const pybind11::list &all);
  void takeCaptured(const Captured &given);
  /// Symbols that neither an input nor an op of the graph says become inputs.
  void bindSymbols(const Captured &given);
  Value constantInput(const pybind11::object &tensor);
  std::string path() const;
  void findDevice(const pybind11::list &all);
  void importNode(pybind11::handle node);
  /// A number in a CPU tensor without dimensions, as eager takes it beside tensors of a device: copied there.
  const NodeValues *onDevice(const NodeValues &values);
  /// Something is written that values before this stand for.
  void noteWrite();
  const char *importWithRule(Call &call, pybind11::handle node);
  void importPlaceholder(pybind11::handle node);
  void importConstant(pybind11::handle node);
  void importCall(pybind11::handle node);
  void importGetItem(pybind11::handle node);
  /// tensor.item() that is a float or a bool. A float stays in memory, nothing waits for it; a bool is an integer.
  bool importItem(pybind11::handle node);
  /// Reads a float of a symbol on the host where integers are computed from it; sizes may name the symbol then.
  void readFloatOfSizes(pybind11::handle node, const Value &value);
  /// Python floats and bools among the graph's inputs and outputs, as what the program takes and gives.
  Value numberInput(pybind11::handle meta);
  Value numberOutput(Value value, pybind11::handle meta);
  /// A Python function over numbers: no op for an integer (its expression says all), float ops in f64.
  bool importScalarCall(pybind11::handle node, pybind11::handle target);
  /// A comparison of floats that depend on sizes: in memory, as the floats are.
  bool compareFloats(pybind11::handle node, pybind11::handle target, Value &truth);
  void importOutput(pybind11::handle node);
  void define(pybind11::handle node, NodeValues values);
  Value scalarOperand(pybind11::handle object);
  /// Python's round() of a float to decimal digits, but for its exact decimal arithmetic: as Inductor does it.
  Value roundToDigits(const Value &x, pybind11::handle digits);
  void startLine(std::string &name, size_t numResults);
  void endLine();
  bool isUnaligned(const Value &input) const;
  /// Of the function, without its name.
  std::string header() const;

  Importer *parent = nullptr;
  Importer *root = this;
  std::string subgraphName;
  Bodies bodies; // the root's
  Captured captured;
  std::vector<Value> constantInputs; // for the captured constants
  std::deque<std::string> reasons;   // why operators stay calls of Python
  bool hasEffect = false, writesMemory = false;
  pybind11::handle graphModule;
  GraphText result;
  std::string body;
  std::string kernels; // given kernels, behind the graph
  std::vector<Value> inputs, outputs;
  std::unordered_map<PyObject *, NodeValues> nodes;
  std::unordered_map<std::string, NodeValues> deviceCopies; // by the name of the value
  c10::Device device{c10::DeviceType::CPU};
  std::string nodeName;
  int line = 2; // the header takes two
  int nextName = 0;
};

const OpInfo &opInfoOf(pybind11::handle overload);

/// Of a tensor, which may be fake.
c10::Device deviceOf(pybind11::handle tensor);
/// How many values a nested meta["val"] holds.
size_t countLeaves(pybind11::handle meta);

} // namespace torch_tile::runtime::fx
