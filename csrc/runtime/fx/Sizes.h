// torch's symbolic integers as SizeExpr, under our names of symbols.
#pragma once

#include "support/SizeExpr.h"
#include "support/SizeFacts.h"

#include <pybind11/pybind11.h>

#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace torch_tile::runtime::fx {

class Sizes {
public:
  struct Symbol {
    std::string torchName, name;
    int64_t min, max, hint;
  };

  Sizes() : factsOfSymbols(context) {}

  /// Of an int or torch.SymInt. Throws UnsupportedGraph where the expression is none of ours.
  SizeExpr read(pybind11::handle value);
  /// Of what a call returns: a symbol that nothing defined before, even where torch knows by now what it must equal.
  SizeExpr readDefinition(pybind11::handle value);
  /// Whether the size is an unbacked symbol that nothing defined before; it is defined from now on.
  bool define(SizeExpr size);
  /// Whether all unbacked symbols in it are defined.
  bool isDefined(SizeExpr size) const;
  /// 1 where the two are the same, else 0.
  SizeExpr equals(SizeExpr a, SizeExpr b);
  /// The symbol of the bits of a torch.SymFloat, which is defined from now on.
  SizeExpr defineFloat(pybind11::handle value);
  /// The symbol behind a SymBool that a call returns as 0 or 1, which is defined with it.
  SizeExpr defineTruth(pybind11::handle value);
  /// Of a bool or torch.SymBool: 1 where it holds, else 0.
  SizeExpr readCondition(pybind11::handle value);
  /// Items of a torch.Size, tuple or list.
  std::vector<SizeExpr> readAll(pybind11::handle sequence);

  /// A symbol of another graph over the same sizes.
  SizeExpr adopt(const Symbol &other);
  /// Null where no size has named the symbol.
  const Symbol *find(std::string_view torchName) const;
  SizeExpr constant(int64_t value) { return context.constant(value); }
  const std::vector<Symbol> &symbols() const { return list; }
  /// Sizes or strides of a tensor, whose symbols memory bounds.
  void addOfTensor(const std::vector<SizeExpr> &dims);
  /// Whether no tensor has the symbol in a size or a stride.
  bool isNumber(const Symbol &symbol) const { return !ofTensors.contains(symbol.name); }
  const SizeFacts &facts() const { return factsOfSymbols; }

  SizeContext context;

private:
  /// `a if condition else b` of sizes.
  SizeExpr readChoice(pybind11::handle expression, pybind11::handle shapeEnv);
  SizeExpr readExpression(pybind11::handle given, pybind11::handle shapeEnv);
  SizeExpr readTruth(pybind11::handle condition, pybind11::handle shapeEnv);
  SizeExpr rename(std::string_view torchName, pybind11::handle shapeEnv);

  SizeFacts factsOfSymbols;
  std::vector<Symbol> list;
  std::unordered_map<std::string, SizeExpr> byTorchName;
  std::unordered_map<PyObject *, SizeExpr> byExpression;
  std::vector<pybind11::object> held; // keeps the keys of byExpression alive
  std::unordered_set<std::string> defined, ofTensors;
  int numBacked = 0, numUnbacked = 0;
};

} // namespace torch_tile::runtime::fx
