// Fuzzes rendezvous/file_store with any contents that a store's file may have, even if its writer died during a write.
//
// An input's first byte selects the damage. 0: the rest of the input is the log after the header. 1: the rest is the
// whole file. Otherwise the rest is a list of records' bodies (a 16-bit length each). They are written with correct
// checksums, so that the code after the check of the checksum is reached as well.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <initializer_list>
#include <span>

#include "base/byte_codec.h"
#include "base/crc32c.h"
#include "rendezvous/file_store.h"
#include "tests/fuzz/harness.h"

namespace rondo::fuzz::file_store_fuzz {
// A file in memory, opened through the path of its descriptor: nothing is written to a disk, and nothing is left
// behind.
class MemoryFile {
 public:
  MemoryFile() : fd_(memfd_create("rondo-fuzz", MFD_CLOEXEC)) { RONDO_HOLDS(fd_ >= 0, "no memory file"); }
  ~MemoryFile() { close(fd_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  std::string path() const { return fmt::format("/proc/self/fd/{}", fd_); }
  std::size_t size() const { return static_cast<std::size_t>(lseek(fd_, 0, SEEK_END)); }
  void Write(std::string_view bytes, std::size_t from) {
    RONDO_HOLDS(ftruncate(fd_, static_cast<off_t>(from)) == 0);
    RONDO_HOLDS(pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(from)) ==
                static_cast<ssize_t>(bytes.size()));
  }

 private:
  int fd_;
};

Result<std::unique_ptr<FileStore>> Open(const MemoryFile& file, const std::shared_ptr<ManualClock>& clock) {
  return FileStore::Open({.path = file.path(),
                          .job = "job",
                          .generation = 1,
                          .who = "host a, pid 17",
                          .deadline = clock->Now() + std::chrono::seconds(1),
                          .max_bytes = 1 << 16,
                          .clock = clock,
                          .sleep = [clock](Duration pause) { clock->Advance(pause); }});
}

std::string Record(std::string_view body) {
  return ByteWriter().Number(static_cast<std::uint32_t>(body.size())).Number(Crc32c(body)).Raw(body).Take();
}

std::string Records(std::string_view bodies) {
  std::string records;
  for (ByteReader in(bodies); in.remaining() > 2;) {
    const std::size_t bytes = in.Number<std::uint16_t>();
    records += Record(in.Raw(std::min(bytes, in.remaining())));
  }
  return records;
}

std::string SetBody(std::span<const KeyValue> entries) {
  ByteWriter body;
  body.Number(std::uint8_t{1}).Number(static_cast<std::uint32_t>(entries.size()));
  for (const auto& [key, value] : entries) body.Text(key).Text(value);
  return body.Take();
}

// Checks that two reads give the same result, and that a value can be read after it was written.
void Use(FileStore& store, TimePoint deadline) {
  const std::vector<std::string> keys{"a", "b", "n"};
  const auto read = store.GetMany(keys, deadline);
  const auto again = store.GetMany(keys, deadline);
  CheckError(read);
  RONDO_HOLDS(read.has_value() == again.has_value());
  if (read) RONDO_HOLDS(*read == *again);
  CheckError(store.Wait(keys, {.deadline = deadline, .cancel_key = "stop"}));
  CheckError(store.Add("n", 1, deadline));
  const Status written = store.Set("b", "new", deadline);
  CheckError(written);
  if (!written) return;
  const auto value = store.Get("b", deadline);
  RONDO_HOLDS(value && *value == "new", "a value that was written is not read");
  CheckError(store.DeleteMany(keys, deadline));
}

Corpus HarnessCorpus() {
  const std::vector<KeyValue> entries{{"a", "1"}, {"n", "41"}};
  const std::vector<KeyValue> stop{{"stop", "\x1b why"}};
  const std::string set = SetBody(entries);
  const std::string removal = ByteWriter().Number(std::uint8_t{2}).Number(std::uint32_t{1}).Text("a").Take();
  const auto bodies = [](std::initializer_list<std::string> all) {
    ByteWriter out;
    out.Number(std::uint8_t{2});
    for (const std::string& body : all) out.Text<std::uint16_t>(body);
    return out.Take();
  };
  const std::string log = Record(set) + Record(removal) + Record(SetBody(stop));
  const std::string header =
      ByteWriter().Raw({"RONDO\0FS", 8}).Number(std::uint32_t{1}).Number(std::uint32_t{0}).Number(Crc32c("")).Take();
  return {.seeds = {bodies({set, removal}), bodies({SetBody(stop)}), std::string(1, '\0') + log,
                    std::string(1, '\0') + log.substr(0, log.size() - 3), "\x01" + header + log, "\x01" + header},
          .words = {std::string("\x01\x01\x00\x00\x00\x01\x00\x00\x00\x61", 10), std::string("\x00\x00\x01\x00", 4)}};
}

void CheckInput(std::string_view input) {
  if (input.empty()) return;
  static MemoryFile file;  // static, so that the path, which contains the descriptor, is the same for every input
  file.Write("", 0);
  const auto clock = std::make_shared<ManualClock>();
  auto store = Open(file, clock);
  RONDO_HOLDS(store, "{}", store.error().ToString());

  const auto damage = static_cast<unsigned char>(input.front());
  const std::string_view rest = input.substr(1);
  file.Write(damage < 2 ? rest : Records(rest), damage == 1 ? 0 : file.size());
  const Allocations allocations;
  Use(**store, clock->Now() + std::chrono::milliseconds(50));
  // The second store finds that a store already uses the file.
  const auto other = Open(file, clock);
  CheckError(other);
  if (other) Use(**other, clock->Now() + std::chrono::milliseconds(50));
  allocations.CheckLargest(16384 + 64 * input.size());
}

}  // namespace rondo::fuzz::file_store_fuzz
