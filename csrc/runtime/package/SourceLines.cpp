#include "runtime/package/SourceLines.h"

#include "artifact/ByteStream.h"

#include <algorithm>
#include <vector>

namespace torch_tile::runtime {

using namespace artifact;

std::string stepName(const Artifact &program, const Step &step) {
  if (auto *launch = std::get_if<Launch>(&step.action))
    return "kernel " + program.kernels[launch->kernel].name;
  if (auto *call = std::get_if<Extern>(&step.action))
    return call->op + (call->overload.empty() ? "" : "." + call->overload);
  if (std::holds_alternative<PyCall>(step.action))
    return "a Python callable of the graph";
  if (std::holds_alternative<Alias>(step.action))
    return "a view";
  if (std::holds_alternative<Check>(step.action))
    return "a check of sizes";
  if (std::holds_alternative<Control>(step.action))
    return "a subgraph";
  return "";
}

/// texts | for each line its number, the texts of operator and place (0: none), and the class of errors
static bool readLines(ByteReader &in, std::map<uint32_t, SourceLine> &lines) {
  std::vector<std::string> texts(1 + in.count());
  for (size_t i = 1; i < texts.size(); ++i)
    if (texts[i] = in.text(); !isUtf8(texts[i]))
      in.fail("a text is no UTF-8");
  auto text = [&]() -> std::string {
    uint32_t number = in.unsignedInt32();
    if (number >= texts.size())
      in.fail("a text is not there");
    return in.hasFailed() ? "" : texts[number];
  };
  for (size_t count = in.count(); count > 0 && !in.hasFailed(); --count) {
    SourceLine &line = lines[in.unsignedInt32()];
    line.op = text();
    line.place = text();
    line.raisesRuntimeError = in.byte() != 0;
  }
  return !in.hasFailed() && in.isAtEnd();
}

SourceLines SourceLines::of(const PackageFile &file, const Variant &variant) {
  SourceLines result;
  std::span<const uint8_t> bytes;
  if (!variant.sources || !readBlob(file.bytes(), file.package().blobs[*variant.sources], bytes).isOk())
    return result;
  ByteReader in(bytes);
  if (!readLines(in, result.known))
    result.known.clear();
  return result;
}

static void addOnce(std::vector<std::string> &list, const std::string &text) {
  if (!text.empty() && std::find(list.begin(), list.end(), text) == list.end())
    list.push_back(text);
}

std::string SourceLines::note(const Artifact &program, std::span<const Step *const> steps,
                              std::optional<uint32_t> line) const {
  constexpr size_t mostPlaces = 8;
  std::string what = steps.empty() ? "" : stepName(program, *steps.front());
  if (what.empty())
    return "";
  std::vector<std::string> operators, places;
  for (size_t i = 0; i < steps.size() && places.empty(); ++i)
    for (uint32_t number : i == 0 && line ? std::vector<uint32_t>{*line} : steps[i]->lines)
      if (auto found = known.find(number); found != known.end()) {
        if (i == 0)
          addOnce(operators, found->second.op);
        addOnce(places, found->second.place);
      }
  if (operators.size() == 1 && (what.starts_with("kernel ") || what.starts_with("a ")))
    what = operators[0] + " in " + what;
  if (places.size() <= 1)
    return "raised by " + what + (places.empty() ? "" : ", from " + places[0]);
  std::string text = "raised by " + what + ", which is made of";
  for (size_t i = 0; i < std::min(places.size(), mostPlaces); ++i)
    text += "\n  " + places[i];
  if (places.size() > mostPlaces)
    text += "\n  ... and " + std::to_string(places.size() - mostPlaces) + " more";
  return text;
}

} // namespace torch_tile::runtime
