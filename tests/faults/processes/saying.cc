#include "tests/faults/processes/saying.h"

#include <unistd.h>

#include <chrono>
#include <string>

#include "base/clock.h"

namespace rondo::processes {

void Say(std::string_view event, nlohmann::json fields) {
  fields["ns"] = std::chrono::duration_cast<std::chrono::nanoseconds>(SteadyClock().Now().time_since_epoch()).count();
  fields["event"] = event;
  // One write per line, so that a line is either complete or missing, even if the process is killed.
  const std::string line = fields.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  if (write(STDOUT_FILENO, line.data(), line.size()) < 0) _exit(5);
}

nlohmann::json FieldsOf(const Error& error) {
  const ErrorDetails& details = error.details();
  nlohmann::json fields{{"code", Name(error.code())},       {"culprit", error.culprit()}, {"host", details.host},
                        {"collective", details.collective}, {"rank", details.rank},       {"text", error.ToString()}};
  if (details.sequence) fields["sequence"] = *details.sequence;
  return fields;
}

}  // namespace rondo::processes
