// Reads the text form of expressions: Python syntax as torch and sympy print it.
#include "support/FloatSizes.h"
#include "support/SizeFunctions.h"
#include "support/SizeNodes.h"

#include <algorithm>
#include <charconv>
#include <optional>

using namespace torch_tile;
using namespace torch_tile::detail;

namespace {

/// Recursive descent with Python's precedences. Every function returns null after having set the error.
class Parser {
public:
  Parser(SizeContext &context, std::string_view text) : context(context), text(text) {}

  SizeExpr parse() {
    SizeExpr e = parseSum();
    skipSpace();
    if (e && pos != text.size())
      return fail("unexpected '" + std::string(1, text[pos]) + "'");
    if (e && !e.isValid())
      return fail("integer overflow or division by zero");
    return e;
  }

  std::string error;

private:
  static constexpr unsigned maxDepth = 200;
  static constexpr int64_t maxExponent = 64;

  SizeExpr fail(std::string why) {
    if (error.empty())
      error = why + " at column " + std::to_string(pos + 1) + " of size expression '" + std::string(text) + "'";
    return SizeExpr();
  }

  void skipSpace() {
    while (pos < text.size() && (text[pos] == ' ' || text[pos] == '\t' || text[pos] == '\n'))
      ++pos;
  }

  bool accept(std::string_view token) {
    skipSpace();
    if (!text.substr(pos).starts_with(token))
      return false;
    pos += token.size();
    return true;
  }

  char peek() {
    skipSpace();
    return pos < text.size() ? text[pos] : '\0';
  }

  /// torch calls floats zf0 (given) and zuf0 (read from a tensor); as a symbol, such a float stands for its bits.
  static bool isFloatSymbol(std::string_view name) { return name.starts_with("zf") || name.starts_with("zuf"); }

  static bool isDigit(char c) { return c >= '0' && c <= '9'; }
  static bool isNameStart(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

  SizeExpr parseSum() {
    if (++depth > maxDepth)
      return fail("expected less nesting");
    SizeExpr sum = parseProduct();
    while (sum) {
      bool isMinus = peek() == '-';
      if (!isMinus && peek() != '+')
        break;
      ++pos;
      SizeExpr rhs = parseProduct();
      if (!rhs)
        return rhs;
      sum = isMinus ? context.sub(sum, rhs) : context.add(sum, rhs);
    }
    --depth;
    return sum;
  }

  SizeExpr parseProduct() {
    SizeExpr product = parseUnary();
    while (product) {
      char op = peek();
      if (op == '/' && !text.substr(pos).starts_with("//"))
        return fail("true division is not an integer size: expected '//'");
      if (op != '*' && op != '/' && op != '%')
        break;
      pos += op == '/' ? 2 : 1;
      SizeExpr rhs = parseUnary();
      if (!rhs)
        return rhs;
      product = op == '*' ? context.mul(product, rhs)
                          : context.call(op == '/' ? SizeFn::FloorDiv : SizeFn::Mod, {product, rhs});
    }
    return product;
  }

  SizeExpr parseUnary() {
    bool isNegative = false;
    while (peek() == '-' || peek() == '+') {
      isNegative ^= text[pos] == '-';
      ++pos;
    }
    static constexpr std::string_view minMagnitude = "9223372036854775808";
    if (isNegative && text.substr(pos).starts_with(minMagnitude) &&
        (pos + minMagnitude.size() == text.size() || !isDigit(text[pos + minMagnitude.size()]))) {
      pos += minMagnitude.size();
      return context.constant(INT64_MIN);
    }
    SizeExpr e = parsePower();
    return e && isNegative ? context.neg(e) : e;
  }

  SizeExpr parsePower() {
    SizeExpr base = parsePrimary();
    if (!base || !accept("**"))
      return base;
    if (++depth > maxDepth)
      return fail("expected less nesting");
    SizeExpr exponent = parseUnary();
    --depth;
    return exponent ? power(base, exponent) : exponent;
  }

  SizeExpr power(SizeExpr base, SizeExpr exponent) {
    auto n = exponent.constant();
    if (!n && base.constant() == 2) {
      SizeExpr asFloat = context.call(sizeFn(FloatFn::IntTrueDiv), {exponent, context.constant(1)});
      return rounded(context.call(sizeFn(FloatFn::Pow), {floatConstant(2), asFloat}), Rounding::Truncate); // exact
    }
    if (!n || *n < 0 || *n > maxExponent)
      return fail("expected a constant exponent of 0 to " + std::to_string(maxExponent) + ", got '" + exponent.str() +
                  "'");
    SizeExpr result = context.constant(1);
    for (int64_t i = 0; i < *n; ++i)
      result = context.mul(result, base);
    return result;
  }

  SizeExpr parsePrimary() {
    char c = peek();
    if (c == '(') {
      ++pos;
      SizeExpr e = parseSum();
      if (e && !accept(")"))
        return fail("expected ')'");
      return e;
    }
    if (isDigit(c))
      return parseInteger();
    if (!isNameStart(c))
      return fail("expected an integer, a symbol or '('");
    size_t start = pos;
    while (pos < text.size() && (isNameStart(text[pos]) || isDigit(text[pos])))
      ++pos;
    std::string_view name = text.substr(start, pos - start);
    if (peek() == '(')
      return parseCall(name);
    return isFloatSymbol(name) ? fail("'" + std::string(name) + "' is a float, expected an integer")
                               : context.symbol(name);
  }

  SizeExpr parseInteger() {
    int64_t value = 0;
    for (; pos < text.size() && isDigit(text[pos]); ++pos)
      if (__builtin_mul_overflow(value, int64_t(10), &value) ||
          __builtin_add_overflow(value, int64_t(text[pos] - '0'), &value))
        return fail("expected an integer of 64 bits");
    if (pos < text.size() && (text[pos] == '.' || isNameStart(text[pos])))
      return fail("expected an integer");
    return context.constant(value);
  }

  /// A float as an integer, TruncToInt(1.5*ToFloat(s0)); a rounded division of integers alone stays exact.
  SizeExpr parseRounding(std::string_view name, Rounding rounding, std::optional<SizeFn> division) {
    size_t start = pos;
    unsigned startDepth = depth;
    if (division)
      if (SizeExpr exact = parseRoundedDivision(*division, name))
        return exact;
    pos = start;
    depth = startDepth;
    error.clear();
    SizeExpr x = accept("(") ? parseFloatSum() : fail("expected '('");
    if (!x)
      return x;
    if (!accept(")"))
      return fail("expected ')'");
    return rounded(x, rounding);
  }

  SizeExpr rounded(SizeExpr x, Rounding rounding) {
    return context.call(sizeFn(FloatFn::ToInt), {x, context.constant(static_cast<int64_t>(rounding))});
  }

  SizeExpr floatConstant(double value) { return context.constant(bitsOfFloat(value)); }

  SizeExpr parseFloatSum() {
    if (++depth > maxDepth)
      return fail("expected less nesting");
    SizeExpr sum = parseFloatProduct();
    while (sum && (peek() == '+' || peek() == '-')) {
      bool isMinus = text[pos++] == '-';
      SizeExpr rhs = parseFloatProduct();
      if (rhs && isMinus)
        rhs = context.call(sizeFn(FloatFn::Mul), {rhs, floatConstant(-1)});
      sum = rhs ? context.call(sizeFn(FloatFn::Add), {sum, rhs}) : rhs;
    }
    --depth;
    return sum;
  }

  SizeExpr parseFloatProduct() {
    SizeExpr product = parseFloatUnary();
    while (product && (peek() == '*' || peek() == '/')) {
      SizeFn fn = text[pos++] == '*' ? sizeFn(FloatFn::Mul) : sizeFn(FloatFn::TrueDiv);
      SizeExpr rhs = parseFloatUnary();
      product = rhs ? context.call(fn, {product, rhs}) : rhs;
    }
    return product;
  }

  SizeExpr parseFloatUnary() {
    bool isNegative = false;
    for (; peek() == '-' || peek() == '+'; ++pos)
      isNegative ^= text[pos] == '-';
    SizeExpr e = parseFloatPrimary();
    if (e && accept("**")) {
      SizeExpr exponent = parseFloatUnary();
      e = exponent ? context.call(sizeFn(FloatFn::Pow), {e, exponent}) : exponent;
    }
    return e && isNegative ? context.call(sizeFn(FloatFn::Mul), {e, floatConstant(-1)}) : e;
  }

  SizeExpr parseFloatPrimary() {
    char c = peek();
    if (c == '(') {
      ++pos;
      SizeExpr e = parseFloatSum();
      return e && !accept(")") ? fail("expected ')'") : e;
    }
    if (isDigit(c) || c == '.') {
      double value = 0;
      auto [end, status] = std::from_chars(text.data() + pos, text.data() + text.size(), value);
      if (status != std::errc())
        return fail("expected a float");
      pos = static_cast<size_t>(end - text.data());
      return floatConstant(value);
    }
    size_t start = pos;
    while (pos < text.size() && (isNameStart(text[pos]) || isDigit(text[pos])))
      ++pos;
    std::string_view name = text.substr(start, pos - start);
    if (name == "ToFloat" || name == "IntTrueDiv") {
      std::vector<SizeExpr> args;
      if (!parseArguments(args))
        return SizeExpr();
      if (args.size() != (name == "ToFloat" ? 1 : 2))
        return fail("unexpected number of arguments of '" + std::string(name) + "'");
      return context.call(sizeFn(FloatFn::IntTrueDiv), {args[0], args.size() == 1 ? context.constant(1) : args[1]});
    }
    return parseFloatCall(name);
  }

  SizeExpr parseFloatCall(std::string_view name) {
    static constexpr std::array<SizeFunction, 4> functions{{{"FloatTrueDiv", sizeFn(FloatFn::TrueDiv)},
                                                            {"FloatPow", sizeFn(FloatFn::Pow)},
                                                            {"Min", sizeFn(FloatFn::Min)},
                                                            {"Max", sizeFn(FloatFn::Max)}}};
    auto it = std::find_if(functions.begin(), functions.end(), [&](const SizeFunction &f) { return f.name == name; });
    if (auto unary = unaryFloatOf(name))
      return parseUnaryFloat(*unary);
    if (name == "RoundDecimal")
      return parseRoundDecimal();
    if (it == functions.end()) {
      if (peek() != '(' && isFloatSymbol(name))
        return context.symbol(name);
      if (peek() != '(')
        return fail("unsupported function '" + std::string(name) + "' of floats");
      SizeExpr integer = parseCall(name);
      return integer ? context.call(sizeFn(FloatFn::IntTrueDiv), {integer, context.constant(1)}) : integer;
    }
    if (!accept("("))
      return fail("expected '('");
    SizeExpr result;
    unsigned count = 0;
    do {
      ++count;
      SizeExpr arg = parseFloatSum();
      if (!arg)
        return arg;
      result = result ? context.call(it->fn, {result, arg}) : arg;
    } while (accept(","));
    bool isBinary = it->fn == sizeFn(FloatFn::TrueDiv) || it->fn == sizeFn(FloatFn::Pow);
    if (isBinary && count != 2)
      return fail("'" + std::string(name) + "' expects 2 arguments, got " + std::to_string(count));
    return accept(")") ? result : fail("expected ')'");
  }

  SizeExpr parseUnaryFloat(UnaryFloat function) {
    SizeExpr x = accept("(") ? parseFloatSum() : fail("expected '('");
    if (!x)
      return x;
    SizeExpr which = context.constant(static_cast<int64_t>(function));
    return accept(")") ? context.call(sizeFn(FloatFn::Unary), {x, which}) : fail("expected ')'");
  }

  /// RoundDecimal(x, digits)
  SizeExpr parseRoundDecimal() {
    SizeExpr x = accept("(") ? parseFloatSum() : fail("expected '('");
    if (!x)
      return x;
    SizeExpr digits = accept(",") ? parseSum() : fail("'RoundDecimal' expects 2 arguments, got 1");
    if (!digits)
      return digits;
    if (digits.constant().value_or(leastDecimalDigits - 1) < leastDecimalDigits)
      return fail("unsupported number of digits '" + digits.str() + "' of 'RoundDecimal'");
    return accept(")") ? context.call(sizeFn(FloatFn::RoundDecimal), {x, digits}) : fail("expected ')'");
  }

  /// torch writes a rounded true division as e.g. TruncToInt(IntTrueDiv(a, b)).
  SizeExpr parseRoundedDivision(SizeFn fn, std::string_view name) {
    skipSpace();
    if (!accept("(") || !accept("IntTrueDiv") || peek() != '(')
      return fail("unsupported operand of '" + std::string(name) + "', expected IntTrueDiv(a, b)");
    std::vector<SizeExpr> args;
    if (!parseArguments(args))
      return SizeExpr();
    if (!accept(")"))
      return fail("expected ')'");
    return args.size() == 2 ? context.call(fn, args) : fail("'IntTrueDiv' expects 2 arguments");
  }

  bool parseArguments(std::vector<SizeExpr> &args) {
    if (!accept("("))
      return fail("expected '('"), false;
    if (accept(")"))
      return true;
    do {
      SizeExpr arg = parseSum();
      if (!arg)
        return false;
      args.push_back(arg);
    } while (accept(","));
    if (!accept(")"))
      return fail("expected ')'"), false;
    return true;
  }

  SizeExpr parseCall(std::string_view name) {
    if (name == "TruncToInt")
      return parseRounding(name, Rounding::Truncate, SizeFn::TruncDiv);
    if (name == "FloorToInt")
      return parseRounding(name, Rounding::Floor, SizeFn::FloorDiv);
    if (name == "CeilToInt")
      return parseRounding(name, Rounding::Ceil, SizeFn::CeilDiv);
    if (name == "RoundToInt")
      return parseRounding(name, Rounding::NearestEven, std::nullopt);
    bool isPower = name == "PowByNatural";
    auto it =
        std::find_if(sizeFunctions.begin(), sizeFunctions.end(), [&](const SizeFunction &f) { return f.name == name; });
    if (it == sizeFunctions.end() && !isPower)
      return fail("unsupported function '" + std::string(name) + "'");
    std::vector<SizeExpr> args;
    if (!parseArguments(args))
      return SizeExpr();
    bool isVariadic = !isPower && (it->fn == SizeFn::Min || it->fn == SizeFn::Max);
    if (isVariadic ? args.empty() : args.size() != 2)
      return fail("'" + std::string(name) + "' expects " + (isVariadic ? "at least 1 argument" : "2 arguments") +
                  ", got " + std::to_string(args.size()));
    return isPower ? power(args[0], args[1]) : context.call(it->fn, args);
  }

  SizeContext &context;
  std::string_view text;
  size_t pos = 0;
  unsigned depth = 0;
};

} // namespace

SizeExpr SizeContext::parse(std::string_view text, std::string *error) {
  Parser parser(*this, text);
  SizeExpr e = parser.parse();
  if (!e && error)
    *error = parser.error;
  return e;
}
