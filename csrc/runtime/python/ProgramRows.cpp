#include "runtime/python/ProgramRows.h"

#include "runtime/executor/Program.h"

#include <set>

namespace py = pybind11;

namespace torch_tile::runtime {

using namespace artifact;

static std::string hexDigits(const Hash &hash) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string text;
  for (uint8_t byte : hash.bytes) {
    text += digits[byte >> 4];
    text += digits[byte & 15];
  }
  return text;
}

py::list kernelRows(const Artifact &artifact) {
  py::list rows;
  for (uint32_t i = 0; i < artifact.kernels.size(); ++i) {
    std::set<uint32_t> lines;
    int64_t bytes = 0, launches = 0;
    bool isKnown = true;
    artifact.forEachBody([&](const Body &body) {
      const SizeProgram sizes(body);
      for (const Step &step : body.steps) {
        auto *launch = std::get_if<Launch>(&step.action);
        if (!launch || launch->kernel != i)
          continue;
        ++launches;
        lines.insert(step.lines.begin(), step.lines.end());
        isKnown &= sizes.isConstant(launch->bytesMoved);
        bytes += sizes.constants()[launch->bytesMoved];
      }
    });
    py::dict row;
    row["name"] = artifact.kernels[i].name;
    row["hash"] = hexDigits(artifact.kernels[i].hash);
    row["target"] = artifact.kernels[i].target;
    row["launches"] = launches;
    row["bytes_moved"] = isKnown ? py::object(py::int_(bytes)) : py::none();
    py::list lineList;
    for (uint32_t line : lines)
      lineList.append(line);
    row["lines"] = lineList;
    rows.append(row);
  }
  return rows;
}

py::list stepLines(const Artifact &artifact) {
  py::list all;
  artifact.forEachBody([&](const Body &body) {
    for (const Step &step : body.steps) {
      py::list lines;
      for (uint32_t line : step.lines)
        lines.append(line);
      all.append(lines);
    }
  });
  return all;
}

py::list externRows(const Artifact &artifact) {
  py::list rows;
  artifact.forEachBody([&](const Body &body) {
    for (const Step &step : body.steps) {
      auto *call = std::get_if<Extern>(&step.action);
      if (!call)
        continue;
      py::dict row;
      row["name"] = call->op + (call->overload.empty() ? "" : "." + call->overload);
      py::list lines;
      for (uint32_t line : step.lines)
        lines.append(line);
      row["lines"] = lines;
      rows.append(row);
    }
  });
  return rows;
}

} // namespace torch_tile::runtime
