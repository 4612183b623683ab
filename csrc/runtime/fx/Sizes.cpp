#include "runtime/fx/Sizes.h"

#include "runtime/fx/Value.h"
#include "support/FloatSizes.h"

#include <algorithm>
#include <limits>

namespace py = pybind11;

namespace torch_tile::runtime::fx {
namespace {

constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

/// A bound of a ValueRanges; infinities and what has no int64 give `unbounded`.
int64_t readBound(py::handle bound, int64_t unbounded) {
  if (!py::hasattr(bound, "is_Integer") || !bound.attr("is_Integer").cast<bool>())
    return unbounded;
  py::int_ value{py::reinterpret_borrow<py::object>(bound)};
  int overflow = 0;
  int64_t result = PyLong_AsLongLongAndOverflow(value.ptr(), &overflow);
  return overflow ? unbounded : result;
}

/// Value seen while tracing, by torch's newer or older name for the table.
int64_t readHint(py::handle shapeEnv, py::handle symbol, int64_t fallback) {
  for (const char *table : {"backed_var_to_val", "var_to_val"}) {
    if (!py::hasattr(shapeEnv, table))
      continue;
    py::object value = shapeEnv.attr(table).attr("get")(symbol);
    return value.is_none() ? fallback : readBound(value, fallback); // asking for the older name too is a warning
  }
  return fallback;
}

} // namespace

SizeExpr Sizes::rename(std::string_view torchName, py::handle shapeEnv) {
  auto [it, isNew] = byTorchName.try_emplace(std::string(torchName));
  if (!isNew)
    return it->second;
  bool isBacked = torchName.starts_with('s');
  if (!isBacked && !torchName.starts_with('u'))
    throw UnsupportedGraph{"symbol '" + it->first + "' is not an integer size"};
  Symbol symbol{it->first, isBacked ? "s" + std::to_string(numBacked++) : "u" + std::to_string(numUnbacked++),
                isBacked ? int64_t{0} : kMin, kMax, 0};
  for (auto item : shapeEnv.attr("var_to_range").cast<py::dict>()) {
    if (py::str(item.first).cast<std::string>() != torchName)
      continue;
    symbol.min = readBound(item.second.attr("lower"), kMin);
    symbol.max = readBound(item.second.attr("upper"), kMax);
    symbol.hint = readHint(shapeEnv, item.first, 0);
  }
  if (symbol.hint == 0)
    symbol.hint = std::min<int64_t>(std::max<int64_t>(symbol.min, 64), symbol.max);
  factsOfSymbols.setRange(symbol.name, symbol.min, symbol.max);
  factsOfSymbols.setHint(symbol.name, symbol.hint);
  it->second = context.symbol(symbol.name);
  list.push_back(std::move(symbol));
  return it->second;
}

SizeExpr Sizes::adopt(const Symbol &other) {
  auto [it, isNew] = byTorchName.try_emplace(other.torchName);
  if (!isNew)
    return it->second;
  Symbol symbol = other;
  symbol.name = other.name.starts_with('s') ? "s" + std::to_string(numBacked++) : "u" + std::to_string(numUnbacked++);
  factsOfSymbols.setRange(symbol.name, symbol.min, symbol.max);
  factsOfSymbols.setHint(symbol.name, symbol.hint);
  it->second = context.symbol(symbol.name);
  list.push_back(std::move(symbol));
  return it->second;
}

const Sizes::Symbol *Sizes::find(std::string_view torchName) const {
  auto it = std::find_if(list.begin(), list.end(), [&](const Symbol &each) { return each.torchName == torchName; });
  return it == list.end() ? nullptr : &*it;
}

SizeExpr Sizes::read(py::handle value) {
  if (PyLong_Check(value.ptr())) {
    int overflow = 0;
    int64_t constant = PyLong_AsLongLongAndOverflow(value.ptr(), &overflow);
    if (overflow)
      throw UnsupportedGraph{"integer out of the range of 64 bits"};
    return context.constant(constant);
  }
  if (!py::hasattr(value, "node"))
    throw UnsupportedGraph{"expected an integer, got " + py::str(py::type::of(value)).cast<std::string>()};
  py::object node = value.attr("node");
  if (!py::hasattr(node, "_expr"))
    throw UnsupportedGraph{"size '" + py::str(value).cast<std::string>() + "' has no expression"};
  py::object raw = node.attr("_expr");
  auto [it, isNew] = byExpression.try_emplace(raw.ptr());
  if (!isNew)
    return it->second;
  held.push_back(raw);

  // With what torch has learned since about its symbols.
  SizeExpr renamed = readExpression(node.attr("expr"), node.attr("shape_env"));
  byExpression[raw.ptr()] = renamed;
  return renamed;
}

SizeExpr Sizes::readExpression(py::handle given, py::handle shapeEnv) {
  py::object expression = py::reinterpret_borrow<py::object>(given);
  if (py::hasattr(shapeEnv, "_torch_tile_stated_sizes"))
    expression = py::module_::import("torch_tile.frontend.stated_sizes").attr("replaced")(expression, shapeEnv);
  if (py::type::of(expression).attr("__name__").cast<std::string_view>() == "Piecewise")
    return readChoice(expression, shapeEnv);
  std::string text = py::str(expression).cast<std::string>(), error;
  auto has = [&](std::string_view name) { return text.find(name) != std::string::npos; };
  if (has("Abs(") || has("BitwiseFn_") || has("Piecewise(")) {
    py::object plain = py::module_::import("torch_tile.frontend.sizes").attr("plain_expression")(expression);
    if (!plain.equal(expression))
      return readExpression(plain, shapeEnv);
  }
  if (text.find('.') != std::string::npos) // sympy shortens floats
    text = py::module_::import("torch_tile.frontend.sizes").attr("exact_text")(expression).cast<std::string>();
  SizeExpr parsed = context.parse(text, &error);
  if (!parsed)
    throw UnsupportedGraph{"size expression '" + text + "': " + error};
  SizeExpr renamed = context.substitute(parsed, [&](std::string_view name) { return rename(name, shapeEnv); });
  if (!renamed.isValid())
    throw UnsupportedGraph{"size expression '" + text + "' overflows 64 bits"};
  return renamed;
}

SizeExpr Sizes::readChoice(py::handle expression, py::handle shapeEnv) {
  auto cases = expression.attr("args").cast<py::tuple>();
  SizeExpr chosen = context.constant(0);
  for (size_t i = cases.size(); i-- > 0;) {
    auto value = cases[i].attr("expr"), condition = cases[i].attr("cond");
    SizeExpr truth = readTruth(condition, shapeEnv);
    chosen = context.add(context.mul(truth, readExpression(value, shapeEnv)),
                         context.mul(context.sub(context.constant(1), truth), chosen));
  }
  if (!chosen.isValid())
    throw UnsupportedGraph{"size expression '" + py::str(expression).cast<std::string>() + "' overflows 64 bits"};
  return chosen;
}

SizeExpr Sizes::readDefinition(py::handle value) {
  SizeExpr known = read(value);
  if (define(known) || !py::hasattr(value, "node"))
    return known;
  py::object node = value.attr("node");
  SizeExpr raw = readExpression(node.attr("_expr"), node.attr("shape_env"));
  define(raw);
  return raw;
}

SizeExpr Sizes::defineTruth(py::handle value) {
  py::object node = value.attr("node");
  py::list symbols(node.attr("expr").attr("free_symbols")); // a later trace may have given it another name
  if (symbols.size() != 1)
    throw UnsupportedGraph{"condition '" + py::str(value).cast<std::string>() + "' of more than one number"};
  SizeExpr truth = readExpression(symbols[0], node.attr("shape_env"));
  define(truth);
  return truth;
}

SizeExpr Sizes::defineFloat(py::handle value) {
  auto torchName = py::str(value.attr("node").attr("expr")).cast<std::string>();
  auto [it, isNew] = byTorchName.try_emplace(torchName);
  if (isNew) {
    constexpr double usual = 64;
    list.push_back({torchName, "u" + std::to_string(numUnbacked++), kMin, kMax, bitsOfFloat(usual)});
    factsOfSymbols.setHint(list.back().name, list.back().hint);
    it->second = context.symbol(list.back().name);
  }
  define(it->second);
  return it->second;
}

void Sizes::addOfTensor(const std::vector<SizeExpr> &dims) {
  for (SizeExpr size : dims)
    if (!size.isConstant())
      for (std::string_view name : size.symbols())
        ofTensors.emplace(name);
}

bool Sizes::define(SizeExpr size) {
  auto name = size.symbol();
  return name && name->starts_with('u') && defined.emplace(*name).second;
}

bool Sizes::isDefined(SizeExpr size) const {
  auto names = size.symbols();
  return std::all_of(names.begin(), names.end(), [&](std::string_view name) {
    return !name.starts_with('u') || defined.contains(std::string(name));
  });
}

SizeExpr Sizes::equals(SizeExpr a, SizeExpr b) {
  SizeExpr difference = context.sub(a, b), one = context.constant(1);
  return context.sub(one, context.min(one, context.max(difference, context.neg(difference))));
}

SizeExpr Sizes::readCondition(py::handle value) {
  if (PyBool_Check(value.ptr()))
    return context.constant(value.ptr() == Py_True);
  if (!py::hasattr(value, "node") || !py::hasattr(value.attr("node"), "_expr"))
    throw UnsupportedGraph{"condition '" + py::str(value).cast<std::string>() + "' has no expression"};
  py::object node = value.attr("node");
  // What torch concluded from a condition makes it true by itself, so take it as it was where all its symbols exist.
  py::object raw = node.attr("_expr");
  bool areKnown = true;
  for (py::handle symbol : raw.attr("free_symbols")) {
    auto it = byTorchName.find(py::str(symbol).cast<std::string>());
    areKnown &= it != byTorchName.end() && isDefined(it->second);
  }
  return readTruth(areKnown ? raw : py::object(node.attr("expr")), node.attr("shape_env"));
}

/// Relations become arithmetic: 1 where a >= b is min(1, max(0, a - b + 1)).
SizeExpr Sizes::readTruth(py::handle condition, py::handle shapeEnv) {
  auto kind = py::type::of(condition).attr("__name__").cast<std::string>();
  if (kind == "BooleanTrue" || kind == "BooleanFalse")
    return context.constant(kind == "BooleanTrue");
  auto args = condition.attr("args").cast<py::tuple>();
  SizeExpr zero = context.constant(0), one = context.constant(1);
  if (kind == "And" || kind == "Or") {
    SizeExpr truth = context.constant(kind == "And");
    for (py::handle arg : args) {
      SizeExpr next = readTruth(arg, shapeEnv);
      truth = kind == "And" ? context.min(truth, next) : context.max(truth, next);
    }
    return truth;
  }
  if (kind == "Not")
    return context.sub(one, readTruth(args[0], shapeEnv));
  bool isEquality = kind == "Equality" || kind == "Unequality";
  bool isLess = kind == "LessThan" || kind == "StrictLessThan";
  if (!isEquality && !isLess && kind != "GreaterThan" && kind != "StrictGreaterThan")
    throw UnsupportedGraph{"condition '" + py::str(condition).cast<std::string>() + "' on sizes"};
  SizeExpr difference = context.sub(readExpression(args[0], shapeEnv), readExpression(args[1], shapeEnv));
  SizeExpr truth;
  if (isEquality) {
    truth = equals(difference, zero);
    if (kind == "Unequality")
      truth = context.sub(one, truth);
  } else {
    if (isLess)
      difference = context.neg(difference);
    SizeExpr above = kind.starts_with("Strict") ? difference : context.add(difference, one);
    truth = context.min(one, context.max(zero, above));
  }
  if (!truth.isValid())
    throw UnsupportedGraph{"condition '" + py::str(condition).cast<std::string>() + "' overflows 64 bits"};
  return truth;
}

std::vector<SizeExpr> Sizes::readAll(py::handle sequence) {
  std::vector<SizeExpr> sizes;
  for (py::handle item : sequence)
    sizes.push_back(read(item));
  return sizes;
}

} // namespace torch_tile::runtime::fx
