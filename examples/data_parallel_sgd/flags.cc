#include "examples/data_parallel_sgd/flags.h"

#include <CLI/CLI.hpp>

namespace sgd {

Parsed ParseFlags(int argc, char** argv) {
  constexpr int kWrongUsage = 2;
  Parsed parsed;
  Flags& flags = parsed.flags;
  std::string gradient_type(Name(flags.gradient_type));
  const auto within = [](auto low, auto high) { return CLI::Range(low, high).description(""); };
  double timeout_s = flags.timeout.count();

  CLI::App app(
      "Trains a small model on shards of a data set that it makes itself, the gradients averaged by Rondo,\n"
      "and holds every step against one process on the whole batch. Exit code 1 if a step is off by more\n"
      "than rounding, or if the ranks' bits differ.",
      "data_parallel_sgd");
  app.footer("Example: rondo run -N 4 -- data_parallel_sgd --steps 100 --gradient-type bfloat16");
  app.option_defaults()->always_capture_default();
  app.failure_message(CLI::FailureMessage::simple);
  app.get_formatter()->column_width(34);
  app.add_option("--steps", flags.steps, "Steps of training")->check(within(1, 1'000'000));
  app.add_option("--batch", flags.batch, "Samples of a step, of all ranks together; shards may be unequal")
      ->check(within(1, 1 << 20));
  app.add_option("--accumulation", flags.accumulation,
                 "Micro-batches whose gradients a rank adds up before one reduction")
      ->check(within(1, 1 << 20));
  app.add_option("--bucket-bytes", flags.bucket_bytes, "Gradients reduced by one all-reduce, with KiB or MiB")
      ->transform(CLI::AsSizeValue(/*kb_is_1000=*/false).description(""))
      ->type_name("BYTES");
  app.add_option("--gradient-type", gradient_type, "Type of gradients on the wire")
      ->check(CLI::IsMember({"float32", "bfloat16", "float16"}))
      ->type_name("TYPE");
  app.add_option("--hidden", flags.hidden, "Widths of the hidden layers")
      ->delimiter(',')
      ->check(within(1, 1 << 12))
      ->type_name("WIDTH,...");
  app.add_option("--learning-rate", flags.learning_rate, "Learning rate")->check(within(1e-6, 10.0));
  app.add_option("--momentum", flags.momentum, "Momentum")->check(within(0.0, 0.99));
  app.add_option("--seed", flags.seed, "Of the data and the start values");
  app.add_option("--rendezvous", flags.rendezvous, "Where the ranks meet: env://, tcp://host:port, file:///path")
      ->type_name("URL");
  app.add_option("--timeout", timeout_s, "Of the meeting and of every operation, in seconds")
      ->envname("RONDO_TIMEOUT")
      ->check(within(0.001, 1e6))
      ->type_name("SECONDS");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    parsed.exit_code = app.exit(error) == 0 ? 0 : kWrongUsage;
  }
  flags.gradient_type = rondo::ParseDataType(gradient_type).value_or(flags.gradient_type);
  flags.timeout = std::chrono::duration<double>(timeout_s);
  return parsed;
}

}  // namespace sgd
