// The disk cache in torch_tile._C: converts arguments and calls; decides nothing.
#include "runtime/cache/DiskCache.h"
#include "runtime/cache/Eviction.h"
#include "runtime/cache/Maintenance.h"
#include "runtime/cache/Notices.h"
#include "runtime/cache/StoreQueue.h"
#include "runtime/python/Bindings.h"

#include <c10/util/Exception.h>
#include <pybind11/stl.h>

#include <cstring>

namespace py = pybind11;

namespace torch_tile::runtime {
namespace {

EntryKind parseKind(const std::string &name) {
  for (EntryKind kind : entryKinds)
    if (name == folderName(kind))
      return kind;
  TORCH_CHECK(false, "unknown kind of cache entry '", name, "'");
}

artifact::Hash parseKey(std::string_view bytes) {
  artifact::Hash key;
  TORCH_CHECK(bytes.size() == sizeof(key.bytes), "a key of ", sizeof(key.bytes), " bytes expected, got ", bytes.size());
  std::memcpy(key.bytes, bytes.data(), bytes.size());
  return key;
}

std::optional<py::bytes> readForPython(DiskCache &cache, const std::string &kind, std::string_view key) {
  std::vector<uint8_t> payload;
  {
    py::gil_scoped_release released;
    if (!cache.read(parseKind(kind), parseKey(key), payload))
      return std::nullopt;
  }
  return py::bytes(reinterpret_cast<const char *>(payload.data()), payload.size());
}

/// Hands the entry to the background thread.
void writeForPython(std::shared_ptr<DiskCache> cache, const std::string &kindName, std::string_view keyBytes,
                    std::string_view payload, bool replace) {
  EntryKind kind = parseKind(kindName);
  artifact::Hash key = parseKey(keyBytes);
  std::string name = cache->storeName(kind, key);
  postStore({name}, [cache = std::move(cache), kind, key, replace,
                     bytes = std::vector<uint8_t>(payload.begin(), payload.end())] {
    cache->write(kind, key, bytes, replace);
  });
}

py::list entriesForPython(const std::string &folder, bool verify) {
  std::vector<EntryInfo> entries;
  {
    py::gil_scoped_release released;
    entries = listEntries(folder, verify);
  }
  py::list result;
  for (const EntryInfo &entry : entries)
    result.append(py::make_tuple(folderName(entry.kind), entry.name, entry.numBytes, entry.usedAt, entry.problem));
  return result;
}

py::list noticesForPython() {
  py::list result;
  for (const Notice &notice : takeNotices())
    result.append(py::make_tuple(notice.isWarning, notice.text));
  return result;
}

} // namespace

void bindCache(py::module_ &m) {
  py::class_<DiskCache, std::shared_ptr<DiskCache>>(m, "DiskCache",
                                                    py::module_local()) // the extension may be loaded twice
      .def(py::init<std::string, int64_t, std::vector<std::string>>(), py::arg("folder"), py::arg("limit_bytes") = 0,
           py::arg("layers") = std::vector<std::string>())
      .def("read", &readForPython, py::arg("kind"), py::arg("key"))
      .def(
          "contains",
          [](DiskCache &cache, const std::string &kind, std::string_view key) {
            return cache.contains(parseKind(kind), parseKey(key));
          },
          py::arg("kind"), py::arg("key"))
      .def("write", &writeForPython, py::arg("kind"), py::arg("key"), py::arg("payload"), py::arg("replace") = false);
  m.def("cache_entries", &entriesForPython, py::arg("folder"), py::arg("verify") = false);
  m.def(
      "cache_leftovers",
      [](const std::string &folder) {
        py::list result;
        for (const Leftover &leftover : listLeftovers(folder))
          result.append(py::make_tuple(leftover.path, leftover.numBytes));
        return result;
      },
      py::arg("folder"));
  m.def(
      "clear_cache",
      [](const std::string &folder) {
        Cleared cleared = clearEntries(folder);
        return py::make_tuple(cleared.numFiles, cleared.numBytes, cleared.numLeftovers, cleared.leftoverBytes,
                              cleared.folders, cleared.left);
      },
      py::arg("folder"));
  m.def(
      "prune_cache",
      [](const std::string &folder, int64_t limitBytes) {
        Evicted evicted = evict(folder, limitBytes);
        return py::make_tuple(evicted.numFiles, evicted.numBytes, evicted.numLeftovers, evicted.leftoverBytes);
      },
      py::arg("folder"), py::arg("limit_bytes"));
  m.def("cache_notices", &noticesForPython);
  m.def("flush_disk_cache", &drainStores, py::call_guard<py::gil_scoped_release>());
  // What this process compiled is on disk when it ends.
  py::module_::import("atexit").attr("register")(m.attr("flush_disk_cache"));
}

} // namespace torch_tile::runtime
