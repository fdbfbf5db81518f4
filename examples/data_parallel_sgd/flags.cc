#include "examples/data_parallel_sgd/flags.h"

#include <CLI/CLI.hpp>
#include <map>

namespace sgd {

Parsed ParseFlags(int argc, char** argv) {
  constexpr int kWrongUsage = 2;
  Parsed parsed;
  Flags& flags = parsed.flags;
  std::string gradient_type(Name(flags.gradient_type));
  const auto within = [](auto low, auto high) { return CLI::Range(low, high).description(""); };
  double timeout_s = flags.timeout.count();
  double settle_s = flags.settle.count();

  CLI::App app(
      "Trains a small model on shards of a data set that it generates. Rondo averages the gradients. Every step\nis "
      "compared with the step of one process on the whole batch. The exit code is 1 if a step differs by\nmore than "
      "rounding, or if the ranks' parameters are not bit for bit equal.",
      "data_parallel_sgd");
  app.footer("Example: rondo run -N 4 -- data_parallel_sgd --steps 100 --gradient-type bfloat16");
  app.option_defaults()->always_capture_default();
  app.failure_message(CLI::FailureMessage::simple);
  app.get_formatter()->column_width(34);
  app.add_option("--steps", flags.steps, "Number of training steps")->check(within(1, 1'000'000));
  app.add_option("--batch", flags.batch,
                 "Number of samples in one step, of all ranks together; the ranks' shards may be unequal")
      ->check(within(1, 1 << 20));
  app.add_option("--accumulation", flags.accumulation,
                 "Number of micro-batches whose gradients a rank adds up before they are reduced")
      ->check(within(1, 1 << 20));
  app.add_option("--bucket-bytes", flags.bucket_bytes,
                 "Size of the gradients that one all-reduce averages, such as 64KiB or 1MiB")
      ->transform(CLI::AsSizeValue(/*kb_is_1000=*/false).description(""))
      ->type_name("BYTES");
  app.add_option("--gradient-type", gradient_type, "Element type in which gradients are sent")
      ->check(CLI::IsMember({"float32", "bfloat16", "float16"}))
      ->type_name("TYPE");
  app.add_option("--hidden", flags.hidden, "Widths of the hidden layers")
      ->delimiter(',')
      ->check(within(1, 1 << 12))
      ->type_name("WIDTH,...");
  app.add_option("--learning-rate", flags.learning_rate, "Learning rate")->check(within(1e-6, 10.0));
  app.add_option("--momentum", flags.momentum, "Momentum")->check(within(0.0, 0.99));
  app.add_option("--seed", flags.seed, "Seed of the data and of the initial parameters");
  app.add_option("--rendezvous", flags.rendezvous, "The rendezvous of the ranks: env://, tcp://host:port, file:///path")
      ->type_name("URL");
  const std::map<std::string, rondo::Path> paths{
      {"auto", rondo::Path::kAuto}, {"tcp", rondo::Path::kTcp}, {"shm", rondo::Path::kShm}, {"ib", rondo::Path::kIb}};
  std::string path = "auto";
  app.add_option(
         "--transport", path,
         "How ranks send bytes. auto: the best available; tcp: only sockets; shm: only shared memory; ib: only RDMA")
      ->check(CLI::IsMember({"auto", "tcp", "shm", "ib"}))
      ->type_name("NAME");
  app.add_option("--timeout", timeout_s, "Limit for the rendezvous and for every operation, in seconds")
      ->envname("RONDO_TIMEOUT")
      ->check(within(0.001, 1e6))
      ->type_name("SECONDS");
  app.add_flag("--survive", flags.survive,
               "Continue without ranks that are lost, from the latest step that any remaining rank has "
               "finished\n(requires rondo run --keep-going)");
  app.add_option("--refill", flags.refill,
                 "With --survive: admit joiners up to this number of ranks (rondo run --restarts)")
      ->check(within(0, 1 << 16));
  app.add_option("--settle", settle_s,
                 "With --survive: how long to wait for joiners and for ranks that may still be alive, in seconds")
      ->check(within(0.001, 1e6))
      ->type_name("SECONDS");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    parsed.exit_code = app.exit(error) == 0 ? 0 : kWrongUsage;
  }
  flags.gradient_type = rondo::ParseDataType(gradient_type).value_or(flags.gradient_type);
  flags.timeout = std::chrono::duration<double>(timeout_s);
  flags.path = paths.count(path) == 0 ? flags.path : paths.at(path);
  flags.settle = std::chrono::duration<double>(settle_s);
  return parsed;
}

}  // namespace sgd
