#include "making.h"

#include <c10/util/Exception.h>
#include <unistd.h>

#include <cerrno>
#include <map>
#include <mutex>
#include <sstream>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

namespace rondo_torch {
namespace {

// Reads a store's prefix, which torch shows only to derived classes.
struct Prefix : c10d::PrefixStore {
  static const std::string& Of(const c10d::PrefixStore& store) { return store.*(&Prefix::prefix_); }
};

struct Place {
  std::string prefixes;
  c10::intrusive_ptr<c10d::Store> kept;
  c10d::Store* store;
};

// Finds the store that is inside all PrefixStores, and the prefixes.
Place PlaceOf(c10d::Store& store) {
  Place place{"", {}, &store};
  while (auto* const prefixed = dynamic_cast<c10d::PrefixStore*>(place.store)) {
    place.prefixes = Prefix::Of(*prefixed) + "/" + place.prefixes;
    place.kept = prefixed->getUnderlyingStore();
    place.store = place.kept.get();
  }
  return place;
}

std::string NameOf(c10d::Store& store, int rank) {
  const Place place = PlaceOf(store);
  std::ostringstream name;
  name << place.prefixes << " of store " << place.store << ", rank " << rank;
  return name.str();
}

// The position up to which a FileStore has read its file. If it is 0, the file may not exist, because the first set of
// a key creates it.
struct Position : c10d::FileStore {
  static off_t Of(const c10d::FileStore& store) { return store.*(&Position::pos_); }
};

std::string FileOf(c10d::Store& store) {
  const Place place = PlaceOf(store);
  const auto* const file = dynamic_cast<const c10d::FileStore*>(place.store);
  return file != nullptr && Position::Of(*file) > 0 ? file->getPath() : "";
}

struct AllMakings {
  std::mutex mutex;
  // The flag is true if a second group with the same name was begun.
  std::map<std::string, std::shared_ptr<std::atomic<bool>>> all;
};
AllMakings& Makings() {
  static auto* const makings = new AllMakings;  // never destroyed, because threads may outlive static objects
  return *makings;
}

constexpr char kTwoAtOnce[] =
    "rondo: two threads make groups at once under one name, so it is not known which ranks belong together: make one "
    "group after the other, in the same order on all ranks";

}  // namespace

Making::Making(c10d::Store& store, int rank, const GivenUp& given_up)
    : name_(NameOf(store, rank)),
      file_(FileOf(store)),
      given_up_(given_up),
      is_second_begun_(std::make_shared<std::atomic<bool>>(false)) {
  {
    const std::lock_guard<std::mutex> lock(Makings().mutex);
    const auto [found, is_only] = Makings().all.emplace(name_, is_second_begun_);
    if (!is_only) *found->second = true;
    TORCH_CHECK(is_only, kTwoAtOnce);
  }
}

Making::~Making() {
  const std::lock_guard<std::mutex> lock(Makings().mutex);
  Makings().all.erase(name_);
}

void Making::Check() const {
  TORCH_CHECK(!given_up_, "rondo: the call that makes this group was interrupted");
  TORCH_CHECK(!*is_second_begun_, kTwoAtOnce);
  TORCH_CHECK(file_.empty() || access(file_.c_str(), F_OK) == 0 || errno != ENOENT,
              "rondo: the file of torch's FileStore, ", file_,
              ", was removed, so no further rendezvous can use it: keep the file until the last group has been made");
}

}  // namespace rondo_torch
