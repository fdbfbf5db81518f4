// The module that Python imports: rondo_torch._backend.
#include <torch/csrc/utils/pybind.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <string>

#include "backend.h"
#include "rondo_store.h"
#include "times.h"

namespace py = pybind11;
using rondo_torch::Base;
using rondo_torch::RondoBackend;
using rondo_torch::RondoStore;
using rondo_torch::Settings;

namespace {

// Converts a datetime.timedelta, or a number of seconds. pybind11's own conversion overflows beyond 292,000 years.
std::chrono::milliseconds TimeOf(const py::object& given) {
  using std::chrono::milliseconds;
  if (py::isinstance(given, py::module_::import("datetime").attr("timedelta"))) {
    const auto part = [&](const char* name) { return given.attr(name).cast<int64_t>(); };
    return milliseconds(part("days") * 86'400'000 + part("seconds") * 1000 + (part("microseconds") + 999) / 1000);
  }
  if (PyFloat_Check(given.ptr()) == 0 && PyLong_Check(given.ptr()) == 0)
    throw py::type_error("rondo: expected a timedelta or seconds as a timeout, got " +
                         py::repr(given).cast<std::string>());
  const auto seconds = given.cast<double>();
  if (!std::isfinite(seconds))
    throw py::value_error("rondo: expected a finite number of seconds as a timeout, or a timedelta, got " +
                          py::repr(given).cast<std::string>());
  const double longest = static_cast<double>(rondo_torch::kLongest.count());
  return milliseconds(static_cast<int64_t>(std::clamp(std::ceil(seconds * 1000), -longest, longest)));
}

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {
  py::class_<Settings>(module, "Settings",
                       "How a group's ranks reach each other. An empty text selects Rondo's default.")
      .def(py::init<>())
      .def_readwrite("profiled_as", &Settings::profiled_as)
      .def_readwrite("interface", &Settings::interface)
      .def_readwrite("addresses", &Settings::addresses)
      .def_readwrite("transport", &Settings::transport)
      .def_readwrite("record_dir", &Settings::record_dir)
      .def_readwrite("rails", &Settings::rails)
      .def_readwrite("fp32_accumulate", &Settings::fp32_accumulate)
      .def_readwrite("group", &Settings::group)
      .def_readwrite("job_ranks", &Settings::job_ranks)
      .def_readwrite("blocking_wait", &Settings::blocking_wait);
  const auto alone = py::call_guard<py::gil_scoped_release>();
  py::class_<RondoBackend, Base, c10::intrusive_ptr<RondoBackend>>(module, "RondoBackend")
      .def(py::init([](const c10::intrusive_ptr<c10d::Store>& store, int rank, int size, const py::object& timeout,
                       const Settings& settings) {
             const std::chrono::milliseconds limit = TimeOf(timeout);
             // Python's lock is released, because the store may be implemented in Python.
             const py::gil_scoped_release free;
             return c10::make_intrusive<RondoBackend>(store, rank, size, limit, settings);
           }),
           py::arg("store"), py::arg("rank"), py::arg("size"), py::arg("timeout"), py::arg("settings"))
      .def("close", &RondoBackend::Close, alone,
           "Leaves the group with a goodbye to the other ranks. Operations fail afterwards.")
      .def("abort", &RondoBackend::Abort, alone, py::arg("reason") = "aborted",
           "Fails all operations, here and on all ranks, which get the reason.")
      .def("check", &RondoBackend::Check, alone,
           "Raises the error of a failed group, also one of a replayed graph; to be called after waiting for a stream.")
      .def("describe", &RondoBackend::Describe, alone, "Describes the path to each rank, in a line each.")
      // Ranks outside a new group have nothing to do, because only its members have a rendezvous.
      .def("perform_nocolor_split", [](RondoBackend&, const py::object&) {});
  py::class_<RondoStore, c10d::Store, c10::intrusive_ptr<RondoStore>>(module, "RondoStore",
                                                                      "The store of a rendezvous.");
  module.def(
      "rendezvous",
      [](const std::string& url, const py::object& timeout, const Settings& settings) {
        rondo_torch::RendezvousResult result;
        const std::chrono::milliseconds limit = TimeOf(timeout);
        {
          const py::gil_scoped_release free;
          result = rondo_torch::Rendezvous(url, limit, settings);
        }
        return py::make_tuple(result.store, result.rank, result.world_size);
      },
      py::arg("url"), py::arg("timeout"), py::arg("settings"),
      "Performs the rendezvous of the job's ranks. Returns its store, this rank and the world size.");
  module.def("close_all", &RondoBackend::CloseAll, alone,
             "Leaves every group with a goodbye. Called at the end of the process.");
  module.def("version", [] { return std::string(rondo_version()); });
}
