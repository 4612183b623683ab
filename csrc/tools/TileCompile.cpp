// tile-compile: compiles text of a graph or of tile kernels as the library does, with every stage to look at. It lies
// in the compiler library, which the program of that name calls: one copy of LLVM serves both.
#include "tools/TileCompile.h"

#include "compiler/driver/Compile.h"
#include "compiler/loader/Loader.h"

#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/ToolOutputFile.h"
#include "llvm/Support/WithColor.h"

#include <chrono>

using namespace torch_tile;
namespace cl = llvm::cl;

/// The command line. Made by the tool, so that the library registers no options of its own.
struct Settings {
  cl::OptionCategory category{"Options of tile-compile"};
  cl::opt<std::string> inputFile{cl::Positional, cl::desc("<input .mlir>"), cl::init("-"), cl::cat(category)};
  cl::opt<std::string> outputFile{"o", cl::desc("output file"), cl::value_desc("file"), cl::init("-"),
                                  cl::cat(category)};
  cl::opt<std::string> target{"target", cl::desc("host, a processor by LLVM's name (x86-64-v3), or a GPU (sm_90)"),
                              cl::init("host"), cl::cat(category)};
  cl::opt<std::string> schedules{
      "schedules", cl::desc("for a GPU, by launch: 0 for the schedule that is chosen, 1 for the best other one, ..."),
      cl::value_desc("0,2,..."), cl::cat(category)};
  cl::opt<std::string> features{"features", cl::desc("LLVM's feature list, \"+avx2,-avx512f\""), cl::cat(category)};
  cl::opt<bool> sleef{"sleef", cl::desc("kernels may call Sleef"), cl::init(true), cl::cat(category)};
  cl::opt<std::string> emit{
      "emit",
      cl::desc("artifact (of a graph; its default), object or ptx (of one kernel; their default on "
               "CPU and GPU), symbols, none, or the file name of a dump (50-kernel.ll)"),
      cl::cat(category)};
  cl::opt<std::string> dumpDir{"dump-dir", cl::desc("write every stage to this folder"), cl::value_desc("folder"),
                               cl::cat(category)};
  cl::opt<bool> showTime{"time", cl::desc("print where the time went to standard error"), cl::cat(category)};
  cl::opt<int> repeat{"repeat", cl::desc("compile this many times; --time shows the last"), cl::init(1),
                      cl::cat(category)};
};

static constexpr const char *overview =
    "Compiles text of the graph dialect (05-import.mlir of a dump, or any later stage) or of tile kernels.\n\n"
    "  tile-compile 05-import.mlir -o graph.artifact     what the runtime loads\n"
    "  tile-compile graph.mlir --emit=50-kernel.ll       one stage, as text\n"
    "  tile-compile graph.mlir --emit=none --dump-dir=d  every stage, as files\n";

static int fail(const llvm::Twine &message) {
  llvm::WithColor::error(llvm::errs(), "tile-compile") << message << '\n';
  return 1;
}

static bool writeDump(llvm::StringRef folder, llvm::StringRef file, llvm::StringRef text) {
  llvm::SmallString<128> path(folder);
  llvm::sys::path::append(path, file);
  std::error_code error;
  llvm::raw_fd_ostream stream(path, error);
  if (!error)
    stream << text;
  return !error;
}

static std::string symbolsOf(const std::vector<codegen::CompiledKernel> &kernels) {
  std::string text;
  for (const codegen::CompiledKernel &kernel : kernels) {
    text += kernel.name + " " + kernel.symbol + " " + std::to_string(kernel.code.size());
    for (const std::string &external : kernel.externalSymbols)
      text += " " + external;
    text += "\n";
  }
  return text;
}

int ttc_tile_compile(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  Settings settings;
  auto &[category, inputFile, outputFile, target, schedules, features, sleef, emit, dumpDir, showTime, repeat] =
      settings;
  cl::HideUnrelatedOptions(category); // LLVM's own, of which there are 180
  cl::ParseCommandLineOptions(argc, argv, overview);
  auto input = llvm::MemoryBuffer::getFileOrSTDIN(inputFile);
  if (!input)
    return fail(inputFile + ": " + input.getError().message());
  llvm::StringRef text = (*input)->getBuffer();

  CompileOptions options;
  std::string lines = "target=" + target + "\nsleef=" + (sleef ? "true" : "false") + "\n";
  if (!schedules.empty())
    lines += "schedules=" + schedules + "\n";
  if (features.getNumOccurrences())
    lines += "features=" + features + "\n";
  Status status = parseOptions(lines, options);
  if (!status.isOk())
    return fail(status.text);
  bool isGraph = text.contains("graph.func");
  if (emit.empty())
    emit = isGraph ? "artifact" : options.gpu ? "ptx" : "object";
  if ((emit == "ptx" && !options.gpu) || (emit == "object" && options.gpu))
    return fail("expected --emit=ptx for a GPU and --emit=object for a processor");
  if (emit == "artifact" && !isGraph)
    return fail("expected a graph (graph.func) to emit an artifact of, got kernels; --emit=object is for those");
  if ((emit == "artifact" || emit == "object") && outputFile == "-" && llvm::sys::Process::StandardOutIsDisplayed())
    return fail("what '" + emit + "' emits is binary: name a file with -o");

  std::string output, timing;
  bool isDumpWanted = llvm::StringRef(emit).contains('.');
  CompileHooks hooks;
  if (!dumpDir.empty() || isDumpWanted || showTime)
    hooks.dump = [&](const char *file, std::string_view data) {
      if (emit == file)
        output = data;
      if (llvm::StringRef(file) == "timing.json")
        timing = data;
      if (!dumpDir.empty() && !writeDump(dumpDir, file, {data.data(), data.size()}))
        fail("cannot write " + llvm::Twine(file));
    };
  if (!dumpDir.empty())
    llvm::sys::fs::create_directories(dumpDir);

  std::vector<codegen::CompiledKernel> kernels;
  std::vector<uint8_t> artifact;
  for (int round = 0; round < repeat; ++round)
    status = isGraph ? compileGraph(text, options, hooks, artifact) : compileTile(text, options, hooks, kernels);
  if (!status.isOk())
    return fail(inputFile + ":" + llvm::Twine(status.line) + ": " + status.stage + ": " + status.text);
  llvm::errs() << status.text; // notes
  if (showTime)
    llvm::errs() << timing;

  if (emit == "artifact")
    output.assign(artifact.begin(), artifact.end());
  else if (emit == "symbols")
    output = symbolsOf(kernels);
  else if (emit == "object" || emit == "ptx") {
    if (kernels.size() != 1)
      return fail("expected one kernel to emit as '" + emit + "', got " + llvm::Twine(kernels.size()));
    output.assign(kernels[0].code.begin(), kernels[0].code.end());
  } else if (emit != "none" && (!isDumpWanted || output.empty()))
    return fail("nothing to emit as '" + emit + "'");
  if (emit == "none")
    return 0;
  std::error_code error;
  llvm::ToolOutputFile file(outputFile, error, llvm::sys::fs::OF_None);
  if (error)
    return fail(outputFile + ": " + error.message());
  file.os() << output;
  file.keep();
  return 0;
}
