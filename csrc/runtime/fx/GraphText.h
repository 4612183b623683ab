// What the import of an FX graph gives.
#pragma once

#include <pybind11/pybind11.h>

#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace torch_tile::runtime::fx {

struct GraphText {
  std::string text;
  /// Line of the text, from 1, and the FX node it comes from.
  std::vector<std::pair<int, std::string>> lines;
  /// torch's names of our symbols: (ours, torch's).
  std::vector<std::pair<std::string, std::string>> symbols;
  /// FX nodes that graph.pycall ops stand for; op number k calls item k with one argument per input node that is a
  /// value.
  pybind11::list pycalls;
  /// Tensors the graph holds itself: its last inputs.
  pybind11::list constants;
  /// Inputs and outputs that are Python floats or bools, by position: the program takes and gives a float as a 0-d
  /// tensor of float64, a bool as an integer. The symbolic length of a jagged tensor ("nested") is no number at run
  /// time: any integer stands for it, and an output that is one is the input itself ("input k").
  std::vector<std::pair<int, std::string>> numberInputs, numberOutputs;
  /// Where kernels run: the first CUDA device of the graph, else the CPU. What is elsewhere is left to calls outside.
  std::string device = "cpu";
  /// FX node, its op, and why it is not generated.
  std::vector<std::tuple<std::string, std::string, std::string>> externs;
};

/// Throws UnsupportedGraph with the node's name in the text.
GraphText printGraph(pybind11::handle graphModule);

} // namespace torch_tile::runtime::fx
