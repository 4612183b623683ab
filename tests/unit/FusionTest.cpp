// Fusion and tile building on random programs of loops: whatever they decide, the kernels are valid IR and nothing is
// lost.
#include "compiler/fusion/Fusion.h"
#include "compiler/graph/ir/GraphDialect.h"
#include "compiler/tile/build/BuildKernels.h"
#include "compiler/tile/ir/TileDialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "gtest/gtest.h"

#include <chrono>
#include <numeric>
#include <random>

using namespace mlir;
using namespace torch_tile;

namespace {

/// Writes a random graph.func of loops. Sizes are texts: numbers or symbols.
class ProgramWriter {
public:
  using Shape = std::vector<std::string>;

  explicit ProgramWriter(unsigned seed) : random(seed) {}

  std::string write(int numOps) {
    shapes = {{"8", "64"}, {"s0", "48"}, {"4", "6", "8"}, {"1", "s0", "16"}, {"s0", "s1"}, {"17"}};
    for (int k = 0; k < 4; ++k)
      arguments.push_back(newValue(pick(shapes)));
    indices = newValue({"8"});
    values = arguments;
    for (int k = 0; k < numOps; ++k)
      writeOp();
    std::string text = "graph.func @graph(";
    for (const Tensor &argument : arguments)
      text += argument.name + ": " + typeOf(argument.shape) + ", ";
    text += indices.name + ": " + typeOf({"8"}, "i64") + ") -> (";
    std::string names, types;
    for (const Tensor &value : values)
      if (oneIn(3) || &value == &values.back()) {
        names += (names.empty() ? "" : ", ") + value.name;
        types += (types.empty() ? "" : ", ") + typeOf(value.shape);
      }
    text += types + ") attributes {symbols = [#graph.symbol<\"s0\", min = 0, max = 9223372036854775807, hint = 96>, "
                    "#graph.symbol<\"s1\", min = 2, max = 1024, hint = 70>]} {\n";
    return text + body + "  graph.return " + names + " : " + types + "\n}\n";
  }

private:
  struct Tensor {
    std::string name;
    Shape shape;
  };

  unsigned below(unsigned n) { return std::uniform_int_distribution<unsigned>(0, n - 1)(random); }
  bool oneIn(unsigned n) { return below(n) == 0; }
  template <typename T> const T &pick(const std::vector<T> &from) { return from[below(from.size())]; }

  static std::string quoted(const std::string &e) { return "\"" + e + "\""; }
  static std::string list(const std::vector<std::string> &items) {
    std::string text;
    for (const std::string &item : items)
      text += (text.empty() ? "" : ", ") + quoted(item);
    return "[" + text + "]";
  }
  static std::string typeOf(const Shape &shape, const std::string &element = "f32") {
    return "!graph.tensor<" + list(shape) + ", " + element + ">";
  }
  static std::string product(const Shape &shape, size_t from) {
    std::string text = "1";
    for (size_t k = from; k < shape.size(); ++k)
      text += "*" + shape[k];
    return text;
  }
  Tensor newValue(Shape shape) { return {"%v" + std::to_string(next++), std::move(shape)}; }
  std::string newScalar() { return "%c" + std::to_string(next++); }

  /// Loads `source` at the point `at` of a space of extents `space` (both may be permuted copies of the source's);
  /// returns the scalar.
  std::string load(const Tensor &source, const std::vector<std::string> &at) {
    std::string result = newScalar(), tail = " : " + typeOf(source.shape) + " -> f32\n";
    std::string head = "    " + result + " = graph.load " + source.name + " ";
    if (oneIn(8)) {
      std::string i = newScalar(), n = newScalar(), m = newScalar(), z = newScalar();
      body += "    " + i + " = graph.index_value " + quoted(at.empty() ? "0" : at.back()) + "\n    " + n +
              " = arith.constant 5 : i64\n    " + m + " = arith.cmpi slt, " + i + ", " + n + " : i64\n    " + z +
              " = arith.constant 2.0 : f32\n" + head + list(at) + " mask " + m + " other " + z + " : f32" + tail;
    } else if (!at.empty() && oneIn(10)) {
      std::string i = newScalar(), j = newScalar();
      body += "    " + i + " = graph.load " + indices.name + " [" + quoted("(" + at[0] + ") % 8") +
              "] : " + typeOf({"8"}, "i64") + " -> i64\n    " + j + " = graph.check_index " + i + " in " +
              quoted(source.shape[0]) + " wrap\n";
      std::vector<std::string> moved = at;
      moved[0] = "x0";
      body += head + list(moved) + " (" + j + ")" + tail;
    } else if (!at.empty() && oneIn(10)) {
      std::vector<std::string> flipped = at;
      flipped.back() = source.shape.back() + " - 1 - (" + at.back() + ")";
      body += head + list(flipped) + tail;
    } else {
      body += head + list(at) + tail;
    }
    return result;
  }

  /// The indices of `source` in a space of the same number of points, read in row-major order.
  std::vector<std::string> reshaped(const Shape &source, const Shape &space, const std::vector<std::string> &names) {
    std::string linear = "0";
    for (size_t k = 0; k < space.size(); ++k)
      linear += " + " + names[k] + "*" + product(space, k + 1);
    std::vector<std::string> at;
    for (size_t k = 0; k < source.size(); ++k)
      at.push_back("((" + linear + ")//(" + product(source, k + 1) + ")) % (" + source[k] + ")");
    return at;
  }

  void writeOp() {
    const Tensor source =
        oneIn(3) ? pick(values) : values[values.size() - 1 - below(std::min<size_t>(values.size(), 4))];
    size_t rank = source.shape.size();
    // The space: the source's dimensions in some order, each of them parallel or reduced.
    std::vector<size_t> order(rank);
    std::iota(order.begin(), order.end(), 0);
    if (oneIn(4))
      std::shuffle(order.begin(), order.end(), random);
    bool isReduction = oneIn(3), isReshaped = !isReduction && oneIn(5);
    std::vector<std::string> at(rank), parallelNames;
    std::string axes, reducedAxes;
    Shape result;
    int reduced = 0;
    for (size_t dim : order) {
      bool isReduced = isReduction && (oneIn(2) || (dim == order.back() && reduced == 0));
      std::string name = (isReduced ? "r" : "i") + std::to_string(isReduced ? reduced++ : result.size());
      at[dim] = name;
      std::string &text = isReduced ? reducedAxes : axes;
      text += (text.empty() ? "" : ", ") + std::string(isReduced ? "reduce " : "") + name + " = " +
              quoted(source.shape[dim]);
      if (!isReduced) {
        result.push_back(source.shape[dim]);
        parallelNames.push_back(name);
      }
    }
    if (isReshaped) {
      result = {product(source.shape, 0)};
      if (oneIn(2))
        result = {product(source.shape, rank / 2), product({source.shape.begin(), source.shape.begin() + rank / 2}, 0)};
      parallelNames.clear();
      axes.clear();
      for (size_t k = 0; k < result.size(); ++k) {
        parallelNames.push_back("i" + std::to_string(k));
        axes += (k ? ", " : "") + parallelNames.back() + " = " + quoted(result[k]);
      }
      at = reshaped(source.shape, result, parallelNames);
    }
    if (!axes.empty() && !reducedAxes.empty())
      axes += ", ";
    bool isInPlace = !isReduction && oneIn(8);
    const Tensor *dest = nullptr;
    for (const Tensor &argument : arguments)
      if (isInPlace && argument.shape == result)
        dest = &argument;
    bool isPair = !dest && oneIn(6);

    Tensor out = newValue(result);
    std::string outer = std::move(body);
    body.clear();
    std::string value = load(source, at);
    // What else fits: values of the same shape, and values of the result's shape.
    for (int tries = 0; tries < 4; ++tries) {
      const Tensor &other = pick(values);
      std::string second;
      if (other.shape == source.shape)
        second = load(other, at);
      else if (other.shape == result)
        second = load(other, parallelNames);
      else
        continue;
      std::string sum = newScalar();
      body += "    " + sum + " = arith.addf " + value + ", " + second + " : f32\n";
      value = sum;
    }
    for (unsigned k = below(4); k-- > 0;) {
      std::string e = newScalar();
      body += "    " + e + (oneIn(2) ? " = math.exp " : " = arith.negf ") + value + " : f32\n";
      value = e;
    }
    std::string inner = std::move(body);
    std::string types = typeOf(result) + (isPair ? ", " + typeOf(result) : "");
    std::string yields = value + (isPair ? ", " + value + " : f32, f32" : " : f32");
    body = outer + "  " + out.name + (isPair ? ":2" : "") + " = graph.loops [" + axes + reducedAxes + "]" +
           (dest ? " into (" + dest->name + " : " + typeOf(result) + ") at [0]" : "") + " -> (" + types + ") {\n" +
           inner + "    graph.yield " + yields + "\n  }";
    if (isReduction && isPair)
      body += " combine [0.0 : f32, 0xFF800000 : f32] {\n  ^bb0(%a: f32, %b: f32, %c: f32, %d: f32):\n    %s = "
              "arith.addf %a, %c : f32\n"
              "    %t = arith.maximumf %b, %d : f32\n    graph.yield %s, %t : f32, f32\n  }";
    else if (isReduction)
      body += " combine [0.0 : f32] {\n  ^bb0(%a: f32, %b: f32):\n    %s = arith.addf %a, %b : f32\n    graph.yield %s "
              ": f32\n  }";
    body += "\n";
    if (isPair)
      out.name += "#" + std::to_string(below(2));
    values.push_back(out);
    if (oneIn(12)) {
      Tensor call = newValue(result);
      body += "  " + call.name + " = graph.extern(" + out.name +
              ") {op = \"aten::sort\", overload = \"\", args = [#graph.operand<0>]} : (" + typeOf(result) + ") -> " +
              typeOf(result) + "\n";
      values.push_back(call);
    }
  }

  std::mt19937 random;
  std::vector<Shape> shapes;
  std::vector<Tensor> arguments, values;
  Tensor indices;
  std::string body;
  unsigned next = 0;
};

class FusionTest : public testing::Test {
protected:
  FusionTest() {
    context
        .loadDialect<graph::GraphDialect, tile::TileDialect, arith::ArithDialect, math::MathDialect, scf::SCFDialect>();
  }

  void compile(const std::string &text, bool isFused) {
    OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, &context);
    ASSERT_TRUE(module) << text;
    auto func = *module->getOps<graph::FuncOp>().begin();
    SmallVector<Type> results(func.getBody().front().getTerminator()->getOperandTypes());
    unsigned numCalls = llvm::range_size(func.getBody().front().getOps<graph::ExternOp>());
    std::vector<fusion::FusionDecision> decisions;
    fusion::FusionOptions options;
    options.enabled = isFused;
    fusion::fuse(func, options, decisions);
    ASSERT_TRUE(succeeded(verify(*module))) << text << fusion::print(decisions);
    ASSERT_TRUE(succeeded(tile_build::buildTileKernels(*module, func, {}, [](graph::FusionOp) {
      return std::string("kernel");
    }))) << text;
    ASSERT_TRUE(succeeded(verify(*module))) << text << fusion::print(decisions);
    ASSERT_EQ(results, SmallVector<Type>(func.getBody().front().getTerminator()->getOperandTypes()));
    ASSERT_EQ(numCalls, llvm::range_size(func.getBody().front().getOps<graph::ExternOp>()));
    numKernels += llvm::range_size(func.getBody().front().getOps<graph::LaunchOp>());
    // Integer arguments are computed by the host, which knows sizes alone.
    func.walk([&](graph::LaunchOp launch) {
      for (SizeExpr e : graph::exprsOf(launch.getIntegers()))
        for (std::string_view name : e.symbols())
          ASSERT_EQ(name[0], 's') << e.str() << "\n" << text;
    });
  }

  MLIRContext context;
  unsigned numKernels = 0;
};

TEST_F(FusionTest, RandomProgramsBecomeValidKernels) {
  for (unsigned seed = 0; seed < 2000 && !HasFatalFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::string text = ProgramWriter(seed).write(2 + seed % 14);
    compile(text, seed % 8 != 0);
  }
}

TEST_F(FusionTest, LongProgramsTakeLinearTime) {
  // Each value uses the two before it: what looks back along all paths would not end.
  std::string text = "graph.func @graph(%v0: !graph.tensor<[64, 512], f32>, %v1: !graph.tensor<[64, 512], f32>) -> "
                     "!graph.tensor<[64, 512], f32> attributes {symbols = []} {\n";
  const std::string type = "!graph.tensor<[64, 512], f32>";
  const int n = 3000;
  for (int k = 2; k < n; ++k) {
    std::string a = std::to_string(k - 1), b = std::to_string(k - 2);
    text += "  %v" + std::to_string(k) + " = graph.loops [i0 = 64, i1 = 512] -> (" + type +
            ") {\n    %a = graph.load %v" + a + " [\"i0\", \"i1\"] : " + type + " -> f32\n    %b = graph.load %v" + b +
            " [\"i0\", \"i1\"] : " + type +
            " -> f32\n    %c = arith.addf %a, %b : f32\n    graph.yield %c : f32\n  }\n";
    if (k % 10 == 0) {
      text += "  %m" + std::to_string(k) +
              " = graph.loops [i0 = 64, reduce r0 = 512] -> (!graph.tensor<[64], f32>) {\n    %a = graph.load %v" +
              std::to_string(k) + " [\"i0\", \"r0\"] : " + type +
              " -> f32\n    graph.yield %a : f32\n  } combine [0.0 : f32] {\n  ^bb0(%a: f32, %b: f32):\n    %s = "
              "arith.addf %a, %b : "
              "f32\n    graph.yield %s : f32\n  }\n  %w" +
              std::to_string(k) + " = graph.loops [i0 = 64, i1 = 512] -> (" + type + ") {\n    %a = graph.load %v" +
              std::to_string(k) + " [\"i0\", \"i1\"] : " + type + " -> f32\n    %b = graph.load %m" +
              std::to_string(k) +
              " [\"i0\"] : !graph.tensor<[64], f32> -> f32\n    %c = arith.addf %a, %b : f32\n    graph.yield %c : "
              "f32\n  }\n";
      ++k;
      text += "  %v" + std::to_string(k) + " = graph.loops [i0 = 64, i1 = 512] -> (" + type +
              ") {\n    %a = graph.load %w" + std::to_string(k - 1) + " [\"i0\", \"i1\"] : " + type +
              " -> f32\n    graph.yield %a : f32\n  }\n";
    }
  }
  text += "  graph.return %v" + std::to_string(n - 1) + " : " + type + "\n}\n";
  auto start = std::chrono::steady_clock::now();
  compile(text, true);
  std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  EXPECT_LT(seconds.count(), 60);
  EXPECT_GT(numKernels, 4u); // what joins a kernel has bounds
  EXPECT_LT(numKernels, 1000u);
}

} // namespace
