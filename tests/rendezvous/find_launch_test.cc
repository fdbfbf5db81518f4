// Tests the detection of launchers with variables that were recorded from Open MPI 4.1.4, MPICH 4.0.2, Slurm 22.05 and
// torchrun 1.13.
#include "rendezvous/launchers/find_launch.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "rendezvous/launchers/derived_ports.h"
#include "rendezvous/launchers/rondo_run.h"
#include "rendezvous/launchers/slurm.h"

namespace rondo {
namespace find_launch_test {

using Variables = std::map<std::string, std::string>;
using Way = Launched::Way;

const Variables kOpenMpi{{"OMPI_COMM_WORLD_RANK", "1"},
                         {"OMPI_COMM_WORLD_SIZE", "2"},
                         {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                         {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                         {"PMIX_NAMESPACE", "1419313153"},
                         {"PMIX_RANK", "1"},
                         {"PMIX_SERVER_TMPDIR", "/tmp/ompi.vm.0/pid.14439"}};
const Variables kMpich{
    {"PMI_FD", "8"}, {"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}};
const Variables kSlurm{{"SLURM_JOB_ID", "17"},
                       {"SLURM_STEP_ID", "3"},
                       {"SLURM_PROCID", "5"},
                       {"SLURM_STEP_NUM_TASKS", "11"},
                       {"SLURM_STEP_NUM_NODES", "3"},
                       {"SLURM_NODEID", "1"},
                       {"SLURM_LOCALID", "1"},
                       {"SLURM_NTASKS", "11"},
                       {"SLURM_STEP_TASKS_PER_NODE", "4(x2),3"},
                       {"SLURM_CLUSTER_NAME", "big"},
                       {"SLURM_STEP_NODELIST", "n[007-009]"}};
const Variables kTorchrun{{"TORCHELASTIC_RUN_ID", "none"},
                          {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                          {"TORCHELASTIC_RESTART_COUNT", "0"},
                          {"GROUP_RANK", "0"},
                          {"RANK", "1"},
                          {"WORLD_SIZE", "4"},
                          {"LOCAL_RANK", "1"},
                          {"LOCAL_WORLD_SIZE", "2"},
                          {"MASTER_ADDR", "node-1"},
                          {"MASTER_PORT", "29400"}};
const Variables kRondoRun{{"RONDO_LAUNCHER", "rondo run"},
                          {"RANK", "1"},
                          {"WORLD_SIZE", "2"},
                          {"LOCAL_RANK", "1"},
                          {"LOCAL_WORLD_SIZE", "2"},
                          {"MASTER_ADDR", "127.0.0.1"},
                          {"MASTER_PORT", "40002"},
                          {"RONDO_STORE", "127.0.0.1:40001"},
                          {"RONDO_JOB", "a1b2"},
                          {"RONDO_EXTERNAL_STORE", "1"}};

Variables With(Variables variables, const Variables& more) {
  for (const auto& [name, value] : more) variables[name] = value;
  return variables;
}
Variables Without(Variables variables, const std::string& name) {
  variables.erase(name);
  return variables;
}

struct System {
  bool sockets = true;
  bool pmix = true;
};

Environment Of(const Variables& variables) {
  return [&variables](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
}

Result<std::optional<Launched>> Find(const Variables& variables, System system = {}) {
  return FindLaunch(Of(variables), {.is_socket = [&](int) { return system.sockets; },
                                    .can_load_pmix = [&](const std::string& library) -> Status {
                                      if (system.pmix) return {};
                                      return Fail(ErrorCode::kUnsupported, "no '{}'", library);
                                    }});
}

Launched Found(const Variables& variables, System system = {}) {
  auto launch = Find(variables, system);
  REQUIRE_MESSAGE(launch.has_value(), launch.error().ToString());
  REQUIRE(launch->has_value());
  return **launch;
}

bool Contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST_CASE("mpirun of Open MPI: a rendezvous by PMIx") {
  const Launched launch = Found(kOpenMpi);
  CHECK(launch.way == Way::kPmix);
  CHECK(launch.rank == 1);
  CHECK(launch.world_size == 2);
  CHECK(launch.local_rank == 1);
  CHECK(launch.one_host());
  CHECK(launch.job == "openmpi/1419313153");
  CHECK(launch.Describe() ==
        "rank 1 of 2, started by mpirun of Open MPI (OMPI_COMM_WORLD_RANK); rendezvous at rank 0's store, published "
        "through PMIx");
  CHECK(Found(With(kOpenMpi, {{"RONDO_PMIX_LIBRARY", "/opt/libpmix.so"}})).library == "/opt/libpmix.so");
}

TEST_CASE("mpirun of Open MPI without a libpmix: on one host in a file of the job, on several not at all") {
  const Launched launch = Found(kOpenMpi, {.pmix = false});
  CHECK(launch.way == Way::kFile);
  CHECK(launch.file == "/tmp/ompi.vm.0/pid.14439/rondo-1419313153");
  CHECK(Contains(launch.Describe(), "(no '')"));
  const Variables bare = Without(With(kOpenMpi, {{"PMIX_NAMESPACE", "a/../b c"}}), "PMIX_SERVER_TMPDIR");
  CHECK(Found(bare, {.pmix = false}).file == "/tmp/rondo-a-..-b-c");
  CHECK(Found(With(bare, {{"TMPDIR", "/scratch"}}), {.pmix = false}).file == "/scratch/rondo-a-..-b-c");

  const auto several = Find(With(kOpenMpi, {{"OMPI_COMM_WORLD_SIZE", "4"}}), {.pmix = false});
  REQUIRE(!several);
  CHECK(several.error().code() == ErrorCode::kUnsupported);
  for (const char* part : {"Open MPI", "--rendezvous", "RONDO_RENDEZVOUS", "several hosts"}) {
    CHECK_MESSAGE(Contains(several.error().message(), part), several.error().message());
  }
}

TEST_CASE("mpiexec of MPICH: a rendezvous by PMI-1, whose key-value space names the job") {
  const Launched launch = Found(kMpich);
  CHECK(launch.way == Way::kPmi1);
  CHECK(launch.fd == 8);
  CHECK(launch.rank == 1);
  CHECK(launch.world_size == 2);
  CHECK(launch.one_host());
  CHECK(launch.job.empty());
  CHECK(Contains(launch.Describe(),
                 "mpiexec of MPICH (PMI_FD); rendezvous at rank 0's store, published through PMI-1 on PMI_FD=8"));
}

TEST_CASE(
    "srun of Slurm: a rendezvous by PMI-2 or PMIx where there is one, else on the first node at the job's ports") {
  const Launched plain = Found(kSlurm);
  CHECK(plain.way == Way::kTcp);
  CHECK(plain.rank == 5);
  CHECK(plain.world_size == 11);
  CHECK(plain.local_rank == 1);
  CHECK(plain.local_world_size == 4);
  CHECK(plain.host == "n007");
  CHECK(plain.ports == DerivedPorts(plain.job));
  CHECK(plain.job == "slurm/big/17.3/0");
  CHECK(Found(With(kSlurm, {{"SLURM_STEP_NUM_NODES", "1"}})).host == "127.0.0.1");

  const Variables by_pmi2 =
      With(kSlurm, {{"PMI_FD", "11"}, {"PMI_JOBID", "17.3"}, {"PMI_RANK", "5"}, {"PMI_SIZE", "11"}});
  const Launched pmi2 = Found(by_pmi2);
  CHECK(pmi2.way == Way::kPmi2);
  CHECK(pmi2.fd == 11);
  CHECK(pmi2.pmi_job == "17.3");
  const Launched closed = Found(by_pmi2, {.sockets = false});
  CHECK(closed.way == Way::kTcp);
  CHECK(Contains(closed.Describe(), "PMI_FD=11 is closed"));

  const Variables by_pmix = With(kSlurm, {{"PMIX_NAMESPACE", "slurm.pmix.17.3"}, {"PMIX_RANK", "5"}});
  CHECK(Found(by_pmix).way == Way::kPmix);
  CHECK(Found(by_pmix, {.pmix = false}).way == Way::kTcp);
}

TEST_CASE("Slurm tasks laid out by hand: the node of rank 0 is not known, unless PMI gives it") {
  const Variables by_hand = With(kSlurm, {{"SLURM_DISTRIBUTION", "arbitrary"}});
  const auto launch = Find(by_hand);
  REQUIRE(!launch);
  CHECK(Contains(launch.error().message(), "SLURM_DISTRIBUTION"));
  CHECK(Contains(launch.error().message(), "--mpi=pmi2"));
  CHECK(Found(With(by_hand, {{"PMI_FD", "11"}, {"PMI_JOBID", "17.3"}})).way == Way::kPmi2);
}

TEST_CASE("torchrun: MASTER_PORT is PyTorch's, so ours is derived from the run") {
  const Launched launch = Found(kTorchrun);
  CHECK(launch.way == Way::kTcp);
  CHECK(launch.host == "node-1");
  CHECK(std::count(launch.ports.begin(), launch.ports.end(), 29400) == 0);
  CHECK(!launch.external_store);
  CHECK(launch.rank == 1);
  CHECK(launch.local_world_size == 2);
  CHECK(Contains(launch.Describe(), "MASTER_PORT=29400 is reserved for PyTorch's own store"));
  CHECK(Found(With(kTorchrun, {{"WORLD_SIZE", "2"}})).host == "127.0.0.1");

  // Each agent has its own count of restarts, so the result must not depend on the count.
  CHECK(Found(With(kTorchrun, {{"TORCHELASTIC_RESTART_COUNT", "2"}})).ports == launch.ports);
  CHECK(Found(With(kTorchrun, {{"MASTER_PORT", "29401"}})).job != launch.job);
  CHECK(Found(With(kTorchrun, {{"TORCHELASTIC_RUN_ID", "a"}})).job != launch.job);
  const std::string long_id(300, 'x');
  CHECK(Found(With(kTorchrun, {{"TORCHELASTIC_RUN_ID", long_id}})).job.size() == kMaxJobIdBytes);
  CHECK(Found(With(kTorchrun, {{"TORCHELASTIC_RUN_ID", long_id + "1"}})).job !=
        Found(With(kTorchrun, {{"TORCHELASTIC_RUN_ID", long_id + "2"}})).job);
}

TEST_CASE(
    "a rank whose peers never came may be none: the error names the variables that made it one, and two ways out") {
  struct Row {
    Variables variables;
    std::vector<std::string> says;
  };
  const std::vector<Row> rows{
      {kSlurm,
       {"SLURM_PROCID and SLURM_STEP_NUM_TASKS", "SLURM_STEP_ID", "rank 5 of 11",
        "the shell of an allocation (srun --pty)", "srun -n 11 COMMAND"}},
      {kOpenMpi, {"OMPI_COMM_WORLD_RANK and OMPI_COMM_WORLD_SIZE", "a shell that it opened", "mpirun -n 2 COMMAND"}},
      {kMpich, {"PMI_RANK and PMI_SIZE", "PMI_FD", "mpiexec -n 2 COMMAND"}},
      {kTorchrun, {"rank 1 of 4", "RANK and WORLD_SIZE", "TORCHELASTIC_RUN_ID", "torchrun COMMAND"}},
      {kRondoRun, {"RANK and WORLD_SIZE", "RONDO_LAUNCHER", "rondo run -N 2 -- COMMAND"}},
  };
  for (const Row& row : rows) {
    const std::string text = Found(row.variables).IfNotMeant();
    CAPTURE(text);
    for (const std::string& part : row.says) CHECK_MESSAGE(Contains(text, part), part);
    CHECK(Contains(text, "this process alone by rondo run -N 1 -- COMMAND"));
  }
  CHECK(Found(With(kOpenMpi, {{"OMPI_COMM_WORLD_RANK", "0"},
                              {"OMPI_COMM_WORLD_SIZE", "1"},
                              {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
                              {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}}))
            .IfNotMeant()
            .empty());  // no hint, because the process is the only rank
}

TEST_CASE("ports that ranks derive from their job are of the range that RONDO_PORTS names") {
  const Launched launch = Found(With(kSlurm, {{"RONDO_PORTS", "41000-41099"}}));
  CHECK(launch.ports == DerivedPorts(launch.job, 0, {.first = 41000, .last = 41099}));
  CHECK(launch.ports.size() == kDerivedPorts);
  for (const std::uint16_t port : launch.ports) CHECK((port >= 41000 && port <= 41099));
  // The port of PyTorch's store is left out, even if the range has few other ports or none.
  const Launched torchrun = Found(With(kTorchrun, {{"RONDO_PORTS", "29399-29401"}}));
  CHECK(std::set<std::uint16_t>(torchrun.ports.begin(), torchrun.ports.end()) == std::set<std::uint16_t>{29399, 29401});
  const auto none = Find(With(kTorchrun, {{"RONDO_PORTS", "29400"}}));
  REQUIRE(!none);
  CHECK(Contains(none.error().message(), "RONDO_PORTS allows only port 29400"));
  const auto wrong = Find(With(kSlurm, {{"RONDO_PORTS", "a-b"}}));
  REQUIRE(!wrong);
  CHECK(Contains(wrong.error().message(), "variable RONDO_PORTS: expected FIRST-LAST"));
  CHECK(!Contains(wrong.error().message(), "is not meant to be a rank"));
}

TEST_CASE("rondo run serves the store itself and names the job") {
  const Launched launch = Found(kRondoRun);
  CHECK(launch.way == Way::kTcp);
  CHECK(launch.external_store);
  CHECK(launch.host == "127.0.0.1");
  CHECK(launch.ports == std::vector<std::uint16_t>{40001});
  CHECK(launch.job == "a1b2");
  CHECK(Contains(launch.Describe(),
                 "by rondo run (RONDO_LAUNCHER); rendezvous at the launcher's store at 127.0.0.1:40001"));
}

TEST_CASE("Of several launchers the innermost wins, and the description says who is around it") {
  struct Row {
    Variables variables;
    std::string by;
    std::string inside;
    System system = {};
  };
  Variables rondo_run_in_all;
  for (const Variables& outer : {kOpenMpi, kMpich, kSlurm, kTorchrun}) {
    for (const auto& [name, value] : outer) {
      if (!DescribesOneProcess(name)) rondo_run_in_all[name] = value;
    }
  }
  const std::vector<Row> rows{
      {With(kSlurm, kOpenMpi), "Open MPI", "Slurm (SLURM_JOB_ID)"},
      {With(kSlurm, kMpich), "MPICH", "Slurm (SLURM_JOB_ID)"},
      {With(With(kSlurm, {{"PMI_JOBID", "17.0"}}), kMpich), "MPICH", "Slurm (SLURM_JOB_ID)"},
      {With(kSlurm, kTorchrun), "torchrun", "Slurm (SLURM_JOB_ID)"},
      {With(kOpenMpi, kTorchrun), "torchrun", "Open MPI (OMPI_COMM_WORLD_RANK)"},
      {With(kOpenMpi, kMpich), "MPICH", "Open MPI (OMPI_COMM_WORLD_RANK)"},
      {With(kMpich, kOpenMpi), "Open MPI", "MPICH (MPI_LOCALRANKID)", {.sockets = false}},
      {With(kRondoRun, kOpenMpi), "Open MPI", "rondo run (RONDO_LAUNCHER)"},
      {With(kRondoRun, kSlurm), "Slurm", "rondo run (RONDO_LAUNCHER)"},
      {With(kRondoRun, kTorchrun), "torchrun", "rondo run (RONDO_LAUNCHER)"},
      {With(rondo_run_in_all, kRondoRun), "rondo run", "Slurm (SLURM_JOB_ID)"},
      {With(With(kSlurm, kRondoRun), kMpich), "MPICH", "Slurm (SLURM_JOB_ID) and rondo run (RONDO_LAUNCHER)"},
  };
  for (const Row& row : rows) {
    const std::string description = Found(row.variables, row.system).Describe();
    CHECK_MESSAGE(Contains(description, row.by + " ("), description);
    CHECK_MESSAGE(Contains(description, "inside " + row.inside + ";"), description);
  }
}

TEST_CASE("A launcher that leaves a variable out, or sets it wrongly, is named with the variable and two ways out") {
  struct Row {
    Variables variables;
    std::vector<std::string> says;
  };
  const std::vector<Row> rows{
      {Without(kOpenMpi, "OMPI_COMM_WORLD_SIZE"), {"Open MPI", "OMPI_COMM_WORLD_SIZE is missing", "--rendezvous"}},
      {With(kOpenMpi, {{"OMPI_COMM_WORLD_RANK", "2"}}), {"OMPI_COMM_WORLD_RANK", "Open MPI", "from 0 to 1"}},
      {Without(Without(kOpenMpi, "PMIX_NAMESPACE"), "x"), {"Open MPI", "OMPI_MCA_ess_base_jobid is missing"}},
      {Without(kMpich, "PMI_RANK"), {"MPICH", "PMI_RANK is missing"}},
      {With(kMpich, {{"PMI_FD", "x"}}), {"PMI_FD of mpiexec of MPICH is 'x'"}},
      {With(kMpich, {{"PMI_SIZE", "0"}}), {"PMI_SIZE of mpiexec of MPICH is '0'"}},
      {Without(kSlurm, "SLURM_STEP_NUM_TASKS"), {"srun of Slurm", "SLURM_STEP_NUM_TASKS is missing"}},
      {Without(kSlurm, "SLURM_STEP_NODELIST"), {"srun of Slurm", "SLURM_STEP_NODELIST is missing"}},
      {With(kSlurm, {{"SLURM_STEP_NODELIST", "n[1"}}), {"srun of Slurm", "SLURM_STEP_NODELIST", "'n[1'"}},
      {Without(kTorchrun, "MASTER_ADDR"), {"torchrun", "MASTER_ADDR is missing"}},
      {With(kTorchrun, {{"MASTER_PORT", "99999"}}), {"MASTER_PORT of torchrun is '99999'"}},
      {Without(kRondoRun, "RONDO_JOB"), {"rondo run", "RONDO_JOB is missing"}},
      {Without(kRondoRun, "RONDO_STORE"), {"rondo run", "RONDO_STORE is missing"}},
      {With(kRondoRun, {{"RONDO_STORE", "127.0.0.1"}}), {"variable RONDO_STORE of rondo run", "lacks ':PORT'"}},
  };
  for (const Row& row : rows) {
    const auto launch = Find(row.variables);
    REQUIRE(!launch);
    CHECK(launch.error().code() == ErrorCode::kInvalidArgument);
    for (const std::string& part : row.says)
      CHECK_MESSAGE(Contains(launch.error().message(), part), launch.error().message());
    for (const char* part : {"If this process is not meant to be a rank: ", "Start all ranks by ",
                             "or this process alone by rondo run -N 1 -- COMMAND"})
      CHECK_MESSAGE(Contains(launch.error().message(), part), launch.error().message());
  }
  const auto slurm = Find(Without(kSlurm, "SLURM_STEP_NUM_TASKS"));
  REQUIRE(!slurm);
  CHECK(Contains(slurm.error().message(), "SLURM_STEP_ID and SLURM_PROCID made it a rank of Slurm"));
  CHECK(Contains(slurm.error().message(), "srun -n N COMMAND"));
}

TEST_CASE("No launcher: every variable that was looked for, and what was nearly one") {
  const Variables batch{{"SLURM_JOB_ID", "4"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "2"}};
  const Variables port{{"PMI_PORT", "vm:41853"}, {"PMI_ID", "0"}};
  const Variables interactive = With(kSlurm, {{"SLURM_STEP_ID", "4294967290"}});  // the shell of salloc
  for (const Variables& variables : {Variables{}, batch, interactive, port}) CHECK(!*Find(variables));
  CHECK(!*Find(kMpich, {.sockets = false}));

  const auto looked_for = [](const Variables& variables) { return WhatWasLookedFor(Of(variables)); };
  for (const char* name : {"TORCHELASTIC_RUN_ID", "PMI_FD", "OMPI_COMM_WORLD_RANK", "SLURM_STEP_ID", "SLURM_PROCID",
                           "RONDO_LAUNCHER", "MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE"}) {
    CHECK(Contains(looked_for({}), name));
  }
  CHECK(Contains(looked_for(batch), "srun did not start it"));
  CHECK(Contains(looked_for(port), "-pmi-port"));
  CHECK(Contains(looked_for(kMpich), "PMI_FD=8 is set, but a program"));
}

TEST_CASE("What describes one process is distinguished from what describes an allocation") {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_FD", "MPI_LOCALRANKID", "TORCHELASTIC_RUN_ID",
                           "SLURM_PROCID", "SLURM_STEP_ID", "SLURM_STEPID", "GROUP_RANK"}) {
    CHECK_MESSAGE(DescribesOneProcess(name), name);
  }
  for (const char* name :
       {"PATH", "SLURM_JOB_ID", "SLURM_JOB_NODELIST", "SLURM_NTASKS", "RONDO_RENDEZVOUS", "OMPI_MCA_btl",
        "OMPI_ALLOW_RUN_AS_ROOT", "PMIX_MCA_ptl", "SLURM_CONF", "MPICH_ASYNC_PROGRESS", "OMP_NUM_THREADS"}) {
    CHECK_MESSAGE(!DescribesOneProcess(name), name);
  }
}

TEST_CASE("The first node of Slurm's lists") {
  struct Row {
    const char* list;
    std::optional<std::string> first;
  };
  for (const Row& row : std::vector<Row>{{"vm", "vm"},
                                         {"n[007-012,20],login", "n007"},
                                         {"n[3]", "n3"},
                                         {"n[3,5-7]-ib", "n3-ib"},
                                         {"rack[1-2]node[05-08]", "rack1node05"},
                                         {"a,b", "a"},
                                         {"", {}},
                                         {",a", {}},
                                         {"n[", {}},
                                         {"n[]", {}},
                                         {"n]", {}},
                                         {"n[a-b]", {}}}) {
    CAPTURE(row.list);
    CHECK(FirstNode(row.list) == row.first);
  }
}

TEST_CASE("Tasks on a node of Slurm's lists") {
  CHECK(TasksOnNode("4(x2),3", 0) == 4);
  CHECK(TasksOnNode("4(x2),3", 1) == 4);
  CHECK(TasksOnNode("4(x2),3", 2) == 3);
  CHECK(TasksOnNode("2", 0) == 2);
  CHECK(!TasksOnNode("4(x2),3", 3));
  for (const char* list : {"", "x", "4(x", "4(x2", "4(x)", "0"}) CHECK(!TasksOnNode(list, 0));
}

TEST_CASE("Ports derived from a job: the same everywhere, all different, outside the ephemeral ones") {
  // The values are fixed, because ranks of one job may run different builds, and all must derive the same ports.
  CHECK(DerivedPorts("slurm/big/17.3/0") ==
        std::vector<std::uint16_t>{24090, 28849, 20857, 28135, 22715, 26928, 25628, 23739});
  std::set<std::uint16_t> first_ports;
  for (int job = 0; job < 500; ++job) {
    const auto ports = DerivedPorts("job " + std::to_string(job));
    CHECK(ports.size() == kDerivedPorts);
    CHECK(std::set<std::uint16_t>(ports.begin(), ports.end()).size() == kDerivedPorts);
    CHECK(*std::min_element(ports.begin(), ports.end()) >= 20000);
    CHECK(*std::max_element(ports.begin(), ports.end()) <= 29999);
    first_ports.insert(ports.front());
    const auto others = DerivedPorts("job " + std::to_string(job), ports.front());
    CHECK(std::count(others.begin(), others.end(), ports.front()) == 0);
    CHECK(others.front() == ports[1]);
  }
  CHECK(first_ports.size() > 450);  // 500 draws of 10000 give about 488 different ports
}

}  // namespace find_launch_test
}  // namespace rondo
