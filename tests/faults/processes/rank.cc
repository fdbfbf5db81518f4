// One rank of a job. It executes its script (steps.h) and reports the outcome (saying.h). tests/faults/processes/run
// starts the rank and injects faults from outside.
#include <sys/prctl.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <csignal>
#include <string>
#include <vector>

#include "tests/faults/processes/script.h"
#include "tests/faults/processes/status_page.h"
#include "tests/faults/processes/steps.h"

int main(int argc, char** argv) {
  using rondo::processes::RankFlags;
  RankFlags flags;
  rondo::ConnectOptions& connect = flags.connect;
  std::string script;
  std::string status_page;
  std::string path = "auto";
  rondo::Rank rank = rondo::kNoRank;
  int world_size = 0;
  double timeout_s = 20;
  double deadline_s = 10;
  double settle_s = 1;
  std::string records;
  std::string address = "127.0.0.1";
  bool not_rebuildable = false;

  CLI::App app("One rank of a job that does what its script says (tests/faults/processes/steps.h).");
  app.add_option("--rendezvous", connect.rendezvous)->required();
  app.add_option("--rank", rank)->required();
  app.add_option("--world-size", world_size)->required();
  app.add_option("--script", script)->required();
  app.add_option("--folder", flags.folder, "Where files appear that let a rank go on")->required();
  app.add_option("--status-page", status_page, "A file that says where this process was when it died");
  app.add_option("--path", path)->check(CLI::IsMember({"auto", "tcp", "shm"}));
  app.add_option("--job", connect.job);
  app.add_option("--generation", connect.generation);
  app.add_flag("--external-store", connect.external_store);
  app.add_flag("--not-rebuildable", not_rebuildable);
  app.add_option("--address", address);
  app.add_option("--interface", connect.interface);
  app.add_option("--timeout", timeout_s, "Of the rendezvous and of a rebuild, in seconds");
  app.add_option("--deadline", deadline_s, "Of each sum, in seconds");
  app.add_option("--settle", settle_s, "RebuildOptions::settle, in seconds");
  app.add_option("--frame-bytes", connect.communicator.frame_bytes);
  app.add_flag("--checksums", connect.communicator.checksums);
  app.add_option("--records", records, "CommunicatorOptions::record_dir");
  app.add_option("--seed", flags.seed, "Of the sums' lengths");
  CLI11_PARSE(app, argc, argv);

  prctl(PR_SET_PDEATHSIG, SIGKILL);  // so that no rank outlives the script that started it
  const auto duration = [](double seconds) {
    return std::chrono::duration_cast<rondo::Duration>(std::chrono::duration<double>(seconds));
  };
  connect.rank = rank;
  connect.world_size = world_size;
  connect.path = path == "tcp" ? rondo::Path::kTcp : path == "shm" ? rondo::Path::kShm : rondo::Path::kAuto;
  if (!address.empty()) connect.addresses = {address};
  connect.rebuildable = !not_rebuildable;
  connect.timeout = duration(timeout_s);
  connect.communicator.record_dir = records;
  flags.deadline = duration(deadline_s);
  flags.settle = duration(settle_s);
  return rondo::processes::RunScript(flags, rondo::processes::ParseScript(script),
                                     rondo::processes::OpenStatusPage(status_page));
}
