// Artifacts survive a round trip; any other bytes are refused without a crash.
#include "artifact/Crc32.h"
#include "artifact/LaunchNote.h"
#include "artifact/Serialize.h"

#include <gtest/gtest.h>

#include <random>

using namespace torch_tile;
using namespace torch_tile::artifact;

namespace {

Expr constant(int64_t value) { return {{ExprOp::Constant, value}}; }

Value tensor(SlotId slot) {
  Value value;
  value.kind = Value::Kind::Tensor;
  value.ref = slot;
  return value;
}

/// One of everything.
Artifact sample() {
  Artifact a;
  a.compilerVersion = "1";
  a.target = "cpu";
  a.symbols = {"s0", "u0"};
  a.symbolSources = {{SymbolSource::Kind::Size, 0, 0}, {SymbolSource::Kind::ExternResult, 3, 0}};
  a.exprs = {constant(256),
             constant(1),
             {{ExprOp::Symbol, 0}},
             {{ExprOp::Symbol, 1}},
             {{ExprOp::Symbol, 0}, {ExprOp::Constant, -3}, {ExprOp::FloorDiv}},
             constant(INT64_MIN),
             constant(INT64_MAX)};
  a.numSlots = 6;
  a.sharedSlots = {{1, {0}}, {2, {0, 1}}};
  a.inputs = {{Input::Kind::Tensor, 0, ElementType::Float32, {2, 0}, {0, 1}}, {Input::Kind::Int, 0, {}, {}, {}}};
  Kernel kernel;
  kernel.name = "add";
  kernel.symbol = "k";
  kernel.target = "cpu";
  for (int i = 0; i < 32; ++i)
    kernel.hash.bytes[i] = static_cast<uint8_t>(i * 7);
  kernel.code = {1, 2, 3, 255, 0};
  kernel.externalSymbols = {"Sleef_expf16_u10"};
  a.kernels = {kernel};
  a.steps.push_back({Alloc{1, ElementType::BFloat16, {2, 0}, {0, 1}}, {3}});
  a.steps.push_back({Launch{0, {0, 1}, {1}, {2, 5, 6}, 2, {2, 5, 6}, 0, 1, 4}, {3, 4}});
  a.steps.push_back({Alias{2, 1, {0}, {1}, 1}, {}});
  Extern call{"aten::sort", "stable", {tensor(2)}, {Result{true, 3, {3}, {1}, true, ElementType::Int64}, Result{}}};
  Value list;
  list.kind = Value::Kind::List;
  Value number;
  number.kind = Value::Kind::Float;
  number.number = 1.5;
  Value text;
  text.kind = Value::Kind::DType;
  text.text = "float32";
  Value expr;
  expr.kind = Value::Kind::Int;
  expr.ref = 4;
  Value flag;
  flag.kind = Value::Kind::Bool;
  flag.number = 1;
  Value complex;
  complex.kind = Value::Kind::Complex;
  complex.items = {number, number};
  complex.items[1].number = -0.0;
  list.items = {number, text, expr, flag, complex, Value{}};
  call.args.push_back(list);
  a.steps.push_back({call, {7}});
  a.steps.push_back({PyCall{0, {tensor(3)}, {Result{true, 4, {}, {}}}}, {8}});
  a.steps.push_back({Check{3, "u0 is zero"}, {}});
  a.steps.push_back({Free{1}, {}});
  // sin(x), and a loop over it.
  Body body;
  body.exprs = {constant(1), {{ExprOp::Symbol, 0}}};
  body.symbols = {"s0"};
  body.symbolSources = {{SymbolSource::Kind::Scalar, 1, 0}};
  body.numSlots = 2;
  body.inputs = {{Input::Kind::Tensor, 0, ElementType::Float32, {1}, {0}}, {Input::Kind::Int, 0, {}, {}, {}}};
  body.steps.push_back({Extern{"aten::sin", "", {tensor(0)}, {Result{true, 1, {1}, {0}}}}, {}});
  body.outputs = {{Output::Kind::Tensor, 1}};
  a.bodies = {body, body};
  Value size;
  size.kind = Value::Kind::Int;
  size.ref = 2;
  a.steps.push_back({Control{Control::Kind::While, {0, 1}, 1, 0, {tensor(2), size}, {Result{true, 5, {2}, {1}}}}, {9}});
  a.outputs = {{Output::Kind::Tensor, 2}, {Output::Kind::Int, 3}, {Output::Kind::None, 0}};
  return a;
}

TEST(Artifact, RoundTrip) {
  Artifact a = sample(), b;
  std::vector<uint8_t> bytes = serialize(a);
  Status status = deserialize(bytes, b);
  ASSERT_TRUE(status.isOk()) << status.text;
  EXPECT_EQ(serialize(b), bytes);
  EXPECT_EQ(print(a), print(b));
  EXPECT_EQ(b.exprs[5][0].value, INT64_MIN);
  EXPECT_EQ(b.exprs[6][0].value, INT64_MAX);
  EXPECT_EQ(b.kernels[0].hash, a.kernels[0].hash);
  EXPECT_EQ(b.kernels[0].code, a.kernels[0].code);
  EXPECT_EQ(std::get<Extern>(b.steps[3].action).args[1].items[0].number, 1.5);
  EXPECT_TRUE(std::get<Extern>(b.steps[3].action).results[0].hasType);
  EXPECT_EQ(std::get<Extern>(b.steps[3].action).results[0].type, ElementType::Int64);
  EXPECT_FALSE(std::get<PyCall>(b.steps[4].action).results[0].hasType);
}

TEST(Artifact, PrintNamesEverything) {
  std::string text = print(sample());
  for (const char *part :
       {"symbol s0 = size 0 of input 0", "input 0: %0 f32 [s0, 256] strides [256, 1]", "memory of %2: 0 1",
        "launch add(%0, %1; s0,", ", writes %1",
        "extern aten::sort.stable(%2, [1.5f, float32, s0//-3, true, (1.5 + -0j), none])", "check u0 \"u0 is zero\"",
        "while @0 @1 carries 1(%2, s0)", "body @1\n", "extern aten::sin(%0)", "// line 3, 4", "return %2, u0, none"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
}

TEST(Artifact, EveryTruncationIsRefused) {
  std::vector<uint8_t> bytes = serialize(sample());
  for (size_t size = 0; size < bytes.size(); ++size) {
    // A copy of exactly this size lets the address sanitizer see reads past the end.
    std::vector<uint8_t> cut(bytes.begin(), bytes.begin() + size);
    Artifact a;
    EXPECT_FALSE(deserialize(cut, a).isOk()) << size;
    EXPECT_TRUE(a.steps.empty());
  }
  bytes.push_back(0);
  Artifact a;
  EXPECT_FALSE(deserialize(bytes, a).isOk());
}

TEST(Artifact, BitFlipsNeverCrash) {
  const std::vector<uint8_t> bytes = serialize(sample());
  std::mt19937 random(1);
  int accepted = 0;
  for (int i = 0; i < 100000; ++i) {
    std::vector<uint8_t> hurt = bytes;
    for (unsigned flips = 1 + random() % 4; flips; --flips)
      hurt[random() % hurt.size()] ^= uint8_t(1u << random() % 8);
    Artifact a;
    if (deserialize(hurt, a).isOk()) {
      ++accepted;
      print(a);
    }
  }
  EXPECT_GT(accepted, 0); // flips in names and code are the checksum's business
}

TEST(Artifact, RandomBytesNeverCrash) {
  std::mt19937 random(2);
  const std::vector<uint8_t> head = serialize(Artifact{});
  for (int i = 0; i < 20000; ++i) {
    std::vector<uint8_t> bytes(head.begin(), head.begin() + 5);
    for (unsigned n = random() % 200; n; --n)
      bytes.push_back(random() % 3 ? random() % 8 : random());
    Artifact a;
    if (deserialize(bytes, a).isOk())
      print(a);
  }
}

/// `damage` must turn the sample into something refused with `reason`.
template <typename Damage> void expectRefused(Damage damage, const char *reason) {
  Artifact a = sample(), b;
  damage(a);
  Status status = deserialize(serialize(a), b);
  EXPECT_FALSE(status.isOk()) << reason;
  EXPECT_NE(status.text.find(reason), std::string::npos) << status.text;
}

TEST(Artifact, BadControlFlowIsNamed) {
  auto expect = [](auto damage, const char *reason) {
    expectRefused([&](Artifact &a) { damage(std::get<Control>(a.steps.back().action), a); }, reason);
  };
  expect([](Control &c, Artifact &) { c.bodies[1] = 2; }, "body 2 does not exist or comes later");
  expect([](Control &c, Artifact &) { c.bodies.pop_back(); }, "control flow with 1 bodies");
  expect([](Control &c, Artifact &) { c.numCarried = 3; }, "over 2 values carries 3");
  expect([](Control &c, Artifact &) { c.numCarried = UINT32_MAX, c.numSliced = 1; }, "carries 4294967295");
  expect([](Control &c, Artifact &) { c.kind = Control::Kind::Scan, c.bodies = {0}; }, "slices 0");
  expect([](Control &c, Artifact &) { c.args.pop_back(); }, "expected a body to take 1 values, got 2");
  expect([](Control &c, Artifact &) { c.args[1] = c.args[0]; }, "value 1 is of another kind");
  expect([](Control &c, Artifact &) { c.results.clear(); }, "has 0 results");
  expect([](Control &, Artifact &a) { a.bodies[1].outputs.clear(); }, "expected a body to give 1 values, got 0");
  expect([](Control &, Artifact &a) { a.bodies[1].outputs[0].ref = 9; }, "body 1, outputs: slot 9 holds nothing");
  // A body that runs itself.
  expect([](Control &c, Artifact &a) { a.bodies[0].steps = {{c, {}}}; }, "body 0, step 0: body 0 does not exist");
}

TEST(Artifact, BadReferencesAreNamed) {
  expectRefused([](Artifact &a) { std::get<Launch>(a.steps[1].action).kernel = 1; }, "kernel 1 does not exist");
  expectRefused([](Artifact &a) { std::get<Launch>(a.steps[1].action).pointers[0] = 4; }, "slot 4 holds nothing");
  expectRefused([](Artifact &a) { std::get<Launch>(a.steps[1].action).pointers[0] = 99; }, "slot 99 holds nothing");
  expectRefused([](Artifact &a) { std::get<Launch>(a.steps[1].action).integers[0] = 7; }, "expr 7 does not exist");
  expectRefused([](Artifact &a) { std::get<Launch>(a.steps[1].action).grid.pop_back(); }, "a grid of 2 sizes");
  expectRefused([](Artifact &a) { std::get<Launch>(a.steps[1].action).integers[0] = 3; },
                "u0 is used before it is known");
  expectRefused([](Artifact &a) { a.exprs[4].pop_back(); }, "expected an expression to leave one value, got 2");
  expectRefused([](Artifact &a) { a.exprs[4].push_back({ExprOp::Add}); }, "operation without two operands");
  expectRefused([](Artifact &a) { a.exprs[2][0].value = 2; }, "symbol 2 does not exist");
  expectRefused([](Artifact &a) { a.exprs[0].clear(); }, "got 0");
  expectRefused([](Artifact &a) { a.symbolSources[0].dim = 2; }, "source dimension 2 does not exist");
  expectRefused([](Artifact &a) { a.symbolSources[0].index = 1; }, "wrong kind");
  expectRefused([](Artifact &a) { a.symbolSources.pop_back(); }, "expected one source per symbol");
  expectRefused([](Artifact &a) { a.numSlots = UINT32_MAX; }, "slots");
  expectRefused([](Artifact &a) { a.sharedSlots[0].slot = 6; }, "shared slot 6 does not exist");
  expectRefused([](Artifact &a) { a.outputs[0].ref = 1; }, "slot 1 holds nothing"); // freed
  expectRefused([](Artifact &a) { a.inputs[0].strides.pop_back(); }, "expected as many strides as sizes");
  expectRefused(
      [](Artifact &a) {
        Value value;
        for (int i = 0; i < 20; ++i) {
          Value outer;
          outer.kind = Value::Kind::List;
          outer.items = {value};
          value = outer;
        }
        std::get<Extern>(a.steps[3].action).args = {value};
      },
      "nested too deeply");
}

TEST(Artifact, DeepExpressionsAreRefused) {
  expectRefused(
      [](Artifact &a) {
        Expr deep(100, {ExprOp::Constant, 1});
        deep.insert(deep.end(), 99, {ExprOp::Add, 0});
        a.exprs[4] = deep;
      },
      "nested too deeply");
}

TEST(Crc32, IsTheSameByBothWays) {
  const std::string digits = "123456789";
  std::span<const uint8_t> text(reinterpret_cast<const uint8_t *>(digits.data()), digits.size());
  EXPECT_EQ(crc32(text), 0xcbf43926u); // as the standard gives it
  EXPECT_EQ(crc32({}), 0u);
  std::mt19937 random(0);
  std::vector<uint8_t> bytes(2000);
  for (uint8_t &byte : bytes)
    byte = static_cast<uint8_t>(random());
  for (size_t offset = 0; offset < 20; ++offset)
    for (size_t size = 0; size < 400; ++size) {
      std::span<const uint8_t> part(bytes.data() + offset, size);
      ASSERT_EQ(crc32(part), portableCrc32(part)) << size << " bytes from " << offset;
    }
  EXPECT_EQ(crc32(bytes), portableCrc32(bytes));
}

TEST(LaunchNote, IsReadFromTheLastLineAlone) {
  auto read = [](const std::string &code) {
    return sharedBytesOf({reinterpret_cast<const uint8_t *>(code.data()), code.size()});
  };
  EXPECT_EQ(launchNote(0), "");
  for (uint32_t bytes : {1u, 65536u, 0xffffffffu}) {
    EXPECT_EQ(read(launchNote(bytes)), bytes);
    EXPECT_EQ(read(std::string("\x7f"
                               "ELF\0 code",
                               9) +
                   launchNote(bytes)),
              bytes);
  }
  EXPECT_EQ(read(""), 0u);
  EXPECT_EQ(read("\n"), 0u);
  EXPECT_EQ(read("ret;\n"), 0u);
  EXPECT_EQ(read(launchNote(48) + "ret;\n"), 0u);
  EXPECT_EQ(read("\n// launch with shared bytes: \n"), 0u);
  EXPECT_EQ(read("\n// launch with shared bytes: 12x\n"), 0u);
  EXPECT_EQ(read("\n// launch with shared bytes: 4294967296\n"), 0u);
}

} // namespace
