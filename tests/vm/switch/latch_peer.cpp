// latch_peer: a client of latches or words at a switch, as a process of its own on any RDMA device. A counter in each
// of some objects: all its words have the counter's value.
//
//   latch_peer make PLACE OBJECTS        makes the objects, says "ready", waits for a line on its standard input,
//                                        adds up all counters and says "sum N"
//   latch_peer count PLACE UPDATES SEED  adds 1 so often, to any of them; reads others meanwhile, and checks them
//   latch_peer both PLACE PLACE UPDATES SEED    adds 1 so often, to an object of each place, with both latched
//   latch_peer hold PLACE                latches the first object, says "holding", and waits for ever
//   latch_peer write PLACE               as hold; after a line on its standard input it says "writing", and WRITEs
//   latch_peer repair PLACE              waits until the first object is unlatched, and says "released"; or gets its
//                                        latch, as it is in doubt, makes its counter 1000 and says "repaired"
//   latch_peer endure PLACE UPDATES SEED OWNER  as count, but when a switch ends it goes on with the next one: what
//   became
//                                        of its last WRITE it asks there. Says "at N" now and then
//   latch_peer sum PLACE                 adds up all counters and says "sum N"
//   latch_peer add SWITCH ADDS CLIENT    FETCH-ADDs to a word that all share; CAS, READ and WRITE of one of its own
//   latch_peer added SWITCH              says "sum N", the word that all share
//
// The device is the first active one, or $LATCH_PEER_DEVICE.
// PLACE: tuples,SWITCH (p4/switch_optimistic.p4) or words,SWITCH,MEMORY_SERVER (p4/switch_atomics.p4); or
// kept,SWITCH,OBJECTS: that many objects in the region "objects" that the memory server shares.
// Exit status 1: a value is wrong; what it should be is said on standard error. 2: it cannot work, and why.
#include <sidelatch/fabric/verbs/memory_server.h>
#include <sidelatch/sync/switch_latch.h>
#include <sidelatch/sync/switched_version.h>

#include <fmt/format.h>

#include <unistd.h>

#include <array>
#include <bit>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

using namespace sidelatch::fabric;
using namespace sidelatch::sync;

namespace {

constexpr std::uint64_t kPayload = 200;
constexpr std::uint64_t kMostWords = 65'536;

struct WrongValue : std::runtime_error {
  using std::runtime_error::runtime_error;
};

void expect(const std::string& what, std::uint64_t got, std::uint64_t wanted) {
  if (got != wanted) {
    throw WrongValue(fmt::format("{}: {}, not {}", what, got, wanted));
  }
}

void say(const std::string& line) { std::cout << line << std::endl; }

std::vector<std::string> parts_of(const std::string& text) {
  std::vector<std::string> parts;
  std::stringstream stream(text);
  for (std::string part; std::getline(stream, part, ',');) {
    parts.push_back(part);
  }
  return parts;
}

// The counter of an object, whose words must be equal.
std::uint64_t counter_in(std::span<const std::byte> payload) {
  std::uint64_t first = 0;
  std::memcpy(&first, payload.data(), sizeof first);
  for (std::size_t i = 0; i < payload.size(); i += sizeof first) {
    std::uint64_t word = 0;
    std::memcpy(&word, payload.data() + i, sizeof word);
    expect(fmt::format("the word at {} of an object that was read", i), word, first);
  }
  return first;
}

void set_counter(std::span<std::byte> payload, std::uint64_t value) {
  for (std::size_t i = 0; i < payload.size(); i += sizeof value) {
    std::memcpy(payload.data() + i, &value, sizeof value);
  }
}

// The memory node and the switch, as PLACE says.
class Place {
 public:
  Place(verbs::VerbsFabric& fabric, const std::string& text, std::uint16_t owner = 0)
      : client_(&fabric.add_node("client of " + text)) {
    const std::vector<std::string> parts = parts_of(text);
    if (parts.size() == 3 && parts[0] == "kept") {
      storage_ = std::make_unique<verbs::RemoteNode>(fabric, parts[1], verbs::RemoteOptions{.owner = owner});
      scheme_ = std::make_unique<SwitchedVersion>();
      kept_ = std::stoull(parts[2]);
      return;
    }
    if (parts.size() == 2 && parts[0] == "tuples") {
      storage_ = std::make_unique<verbs::RemoteNode>(fabric, parts[1]);
      scheme_ = std::make_unique<SwitchedVersion>();
    } else if (parts.size() == 3 && parts[0] == "words") {
      switch_ = std::make_unique<verbs::RemoteNode>(fabric, parts[1]);
      storage_ = std::make_unique<verbs::RemoteNode>(fabric, parts[2]);
      scheme_ = std::make_unique<SwitchLatch>();
    } else {
      throw std::invalid_argument(fmt::format("{}: tuples,SWITCH or words,SWITCH,MEMORY_SERVER", text));
    }
  }

  [[nodiscard]] const Scheme& scheme() const { return *scheme_; }
  [[nodiscard]] RecordShape shape() const { return scheme_->shape(kPayload, LayoutKind::slotted); }

  void make(std::uint64_t objects) {
    const Layout layout(shape(), LayoutKind::slotted, objects);
    made_ = storage_->allocate(layout.total_bytes(), Access::remote_all);
    if (switch_ == nullptr) {
      storage_->keep_versions(made_.remote(), objects, layout.shape().bytes, layout.stride());
    }
    storage_->publish("objects", made_);
  }

  void connect() {
    RemoteSpan memory = storage_->region("objects");
    if (kept_ != 0) {
      const Layout layout(shape(), LayoutKind::slotted, kept_);
      memory = memory.subspan(0, layout.total_bytes());
      storage_->keep_versions(memory, kept_, layout.shape().bytes, layout.stride());
    }
    const std::uint64_t stride = Layout(shape(), LayoutKind::slotted, 1).stride();
    objects_ = std::make_unique<ObjectArray>(Layout(shape(), LayoutKind::slotted, memory.length / stride), memory);
    SessionOptions options;
    options.retry = Retry::backoff();
    if (switch_ == nullptr) {
      options.versions_at_switch = true;
    } else {
      to_switch_ = client_->connect(*switch_);
      options.latches = {.queue_pair = to_switch_.get(),
                         .words = switch_->region("words"),
                         .first = memory.address,
                         .granule = stride};
    }
    to_memory_ = client_->connect(*storage_);
    session_ = std::make_unique<Session>(*to_memory_, buffer_bytes(shape()), options);
  }
  [[nodiscard]] Session& session() { return *session_; }
  [[nodiscard]] QueuePair& to_memory() { return *to_memory_; }
  // The first object, as it lies in memory.
  [[nodiscard]] RemoteSpan first() { return storage_->region("objects").subspan(0, shape().bytes); }
  [[nodiscard]] verbs::RemoteNode& storage() { return *storage_; }
  [[nodiscard]] bool inherit_first() { return storage_->inherit(*to_memory_, first()); }
  [[nodiscard]] MemoryRegion buffer() { return client_->allocate(shape().bytes, Access::local_write); }
  [[nodiscard]] const ObjectArray& objects() const { return *objects_; }

 private:
  Node* client_;
  std::unique_ptr<verbs::RemoteNode> switch_;
  std::unique_ptr<verbs::RemoteNode> storage_;
  std::unique_ptr<Scheme> scheme_;
  MemoryRegion made_;
  std::uint64_t kept_ = 0;
  std::unique_ptr<ObjectArray> objects_;
  std::unique_ptr<QueuePair> to_switch_;
  std::unique_ptr<QueuePair> to_memory_;
  std::unique_ptr<Session> session_;
};

Task<std::uint64_t> sum_of(Place& place) {
  std::vector<std::byte> payload(kPayload);
  std::uint64_t sum = 0;
  for (std::uint64_t i = 0; i < place.objects().size(); ++i) {
    const ReadResult read = co_await place.scheme().read(place.session(), place.objects().at(i), payload);
    expect("a READ was accepted", static_cast<std::uint64_t>(read.accepted), 1);
    sum += counter_in(payload);
  }
  co_return sum;
}

Task<void> count(Place& place, std::uint64_t updates, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::byte> payload(kPayload);
  std::vector<std::uint64_t> least(place.objects().size());
  std::uint64_t verified = 0;
  for (std::uint64_t n = 0; n < updates; ++n) {
    const std::uint64_t i = random() % place.objects().size();
    ExclusiveGuard guard = co_await place.scheme().latch(place.session(), place.objects().at(i));
    const std::uint64_t value = counter_in(guard.payload());
    if (value < least[i]) {
      throw WrongValue(fmt::format("object {}: {} under the latch, after {}", i, value, least[i]));
    }
    set_counter(guard.payload(), value + 1);
    co_await guard.commit();
    least[i] = value + 1;

    const std::uint64_t other = random() % place.objects().size();
    ReadGuard read = co_await place.scheme().begin_read(place.session(), place.objects().at(other));
    const std::uint64_t seen = counter_in(read.payload());
    const bool valid = co_await read.validate();
    verified += valid ? 1 : 0;
    if (seen < least[other]) {
      throw WrongValue(fmt::format("object {}: {} was read after {}", other, seen, least[other]));
    }
    least[other] = seen;
  }
  say(fmt::format("done {} updates, {} reads, {} of them verified", updates, updates, verified));
}

// A WRITE whose answer has not come.
struct InDoubt {
  std::uint64_t object = 0;
  std::uint64_t version = 0;
  std::uint64_t counter = 0;
};

struct Endurance {
  std::mt19937_64 random;
  std::uint64_t left = 0;
  std::uint64_t done = 0;
  std::vector<std::uint64_t> least{};
  std::optional<InDoubt> in_doubt{};
};

// True: the WRITE has happened, or is made now.
Task<bool> resume(Place& place, const InDoubt& write) {
  const RemoteSpan object = place.objects().at(write.object).record();
  const verbs::Resumption resumption = place.storage().resume(place.to_memory(), object, write.version);
  constexpr std::array<const char*, 3> kNames{"is made again", "has happened", "is lost"};
  say(fmt::format("a WRITE in doubt {}", kNames.at(static_cast<std::size_t>(resumption))));
  if (resumption == verbs::Resumption::granted) {
    const MemoryRegion buffer = place.buffer();
    co_await place.to_memory().read(buffer.local(), object);
    set_counter(std::span(buffer.local().data, object.length).subspan(sizeof(std::uint64_t)), write.counter);
    co_await place.to_memory().write(buffer.local(), object);
  }
  co_return resumption != verbs::Resumption::lost;
}

Task<void> endure_with(Place& place, Endurance& work) {
  constexpr std::uint64_t kSayEvery = 20;
  if (work.in_doubt) {
    const bool happened = co_await resume(place, *work.in_doubt);
    work.done += happened ? 1 : 0;
    work.left -= happened ? 1 : 0;
    work.in_doubt.reset();
  }
  place.storage().settled();
  std::vector<std::byte> payload(kPayload);
  while (work.left > 0) {
    const std::uint64_t i = work.random() % place.objects().size();
    ExclusiveGuard guard = co_await place.scheme().latch(place.session(), place.objects().at(i));
    const std::uint64_t value = counter_in(guard.payload());
    if (value < work.least[i]) {
      throw WrongValue(fmt::format("object {}: {} under the latch, after {}", i, value, work.least[i]));
    }
    set_counter(guard.payload(), value + 1);
    work.in_doubt = InDoubt{.object = i, .version = guard.version(), .counter = value + 1};
    co_await guard.commit();
    work.in_doubt.reset();
    work.least[i] = value + 1;
    --work.left;
    if (++work.done % kSayEvery == 0) {
      say(fmt::format("at {}", work.done));
    }
    const std::uint64_t other = work.random() % place.objects().size();
    const ReadResult read = co_await place.scheme().read(place.session(), place.objects().at(other), payload);
    const std::uint64_t seen = counter_in(payload);
    if (!read.accepted || seen < work.least[other]) {
      throw WrongValue(fmt::format("object {}: {} was read after {}", other, seen, work.least[other]));
    }
    work.least[other] = seen;
  }
}

void endure(const std::vector<std::string>& arguments, verbs::VerbsFabric& fabric) {
  Endurance work{.random = std::mt19937_64(std::stoull(arguments.at(3))), .left = std::stoull(arguments.at(2))};
  const auto owner = static_cast<std::uint16_t>(std::stoul(arguments.at(4)));
  work.least.resize(std::stoull(parts_of(arguments.at(1)).at(2)));
  while (work.left > 0) {
    try {
      Place place(fabric, arguments.at(1), owner);
      place.connect();
      fabric.reactor().run(endure_with(place, work));
    } catch (const WrongValue&) {
      throw;
    } catch (const std::exception& error) {
      // FabricError, or no switch is there yet.
      std::cerr << "latch_peer: " << error.what() << std::endl;
      constexpr auto kBeforeNext = std::chrono::milliseconds(50);
      std::this_thread::sleep_for(kBeforeNext);
    }
  }
  say(fmt::format("done {} updates", work.done));
}

// Makes tuples hot and cold, as others use them. What is latched stays hot.
void move_tuples(Place& place, std::uint64_t moves, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uint64_t refused = 0;
  for (std::uint64_t n = 0; n < moves; ++n) {
    const RemoteSpan tuple = place.objects().at(random() % place.objects().size()).record();
    try {
      if (random() % 2 == 0) {
        place.storage().make_hot(tuple);
      } else {
        place.storage().make_cold(tuple);
      }
    } catch (const std::runtime_error& error) {
      if (std::string(error.what()).find("latched or in doubt") == std::string::npos) {
        throw;
      }
      ++refused;
    }
  }
  say(fmt::format("done {} moves, {} refused", moves, refused));
}

Task<void> hold(Place& place) {
  const ExclusiveGuard guard = co_await place.scheme().latch(place.session(), place.objects().at(0));
  say("holding");
  for (;;) {
    ::pause();
  }
}

Task<void> write_slowly(Place& place) {
  ExclusiveGuard guard = co_await place.scheme().latch(place.session(), place.objects().at(0));
  say("holding");
  std::string line;
  std::getline(std::cin, line);
  set_counter(guard.payload(), counter_in(guard.payload()) + 1);
  say("writing");
  co_await guard.commit();
  say("written");
}

// One update, whose WRITE finds no switch any more, and is made again at the next ones until it is told to have
// happened.
Task<InDoubt> write_in_doubt(Place& place) {
  ExclusiveGuard guard = co_await place.scheme().latch(place.session(), place.objects().at(0));
  const InDoubt write{.object = 0, .version = guard.version(), .counter = counter_in(guard.payload()) + 1};
  set_counter(guard.payload(), write.counter);
  say("holding");
  std::string line;
  std::getline(std::cin, line);
  try {
    co_await guard.commit();
  } catch (const FabricError& error) {
    say("in doubt");
    co_return write;
  }
  throw WrongValue("the switch has ended, and a WRITE got its answer");
}

void doubt(const std::vector<std::string>& arguments, verbs::VerbsFabric& fabric) {
  const auto owner = static_cast<std::uint16_t>(std::stoul(arguments.at(2)));
  InDoubt write;
  {
    Place place(fabric, arguments.at(1), owner);
    place.connect();
    place.storage().settled();
    write = fabric.reactor().run(write_in_doubt(place));
  }
  for (;;) {
    try {
      Place place(fabric, arguments.at(1), owner);
      place.connect();
      const bool happened = fabric.reactor().run(resume(place, write));
      expect("the WRITE is not lost", happened ? 1 : 0, 1);
      place.storage().settled();
      say("written");
      return;
    } catch (const WrongValue&) {
      throw;
    } catch (const std::exception& error) {
      std::cerr << "latch_peer: " << error.what() << std::endl;
      constexpr auto kBeforeNext = std::chrono::milliseconds(20);
      std::this_thread::sleep_for(kBeforeNext);
    }
  }
}

Task<void> repair(Place& place) {
  const MemoryRegion buffer = place.buffer();
  const RemoteSpan object = place.first();
  for (;;) {
    if (place.inherit_first()) {
      break;
    }
    co_await place.to_memory().read(buffer.local().subspan(0, sizeof(std::uint64_t)), object.subspan(0, 8));
    std::uint64_t version = 0;
    std::memcpy(&version, buffer.local().data, sizeof version);
    if (version % 2 == 0) {
      say("released");
      co_return;
    }
  }
  co_await place.to_memory().read(buffer.local(), object);
  set_counter(std::span(buffer.local().data, object.length).subspan(sizeof(std::uint64_t)), 1000);
  co_await place.to_memory().write(buffer.local(), object);
  say("repaired");
}

Task<void> count_both(Place& one, Place& other, std::uint64_t updates, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  for (std::uint64_t n = 0; n < updates; ++n) {
    ExclusiveGuard first =
        co_await one.scheme().latch(one.session(), one.objects().at(random() % one.objects().size()));
    ExclusiveGuard second =
        co_await other.scheme().latch(other.session(), other.objects().at(random() % other.objects().size()));
    set_counter(first.payload(), counter_in(first.payload()) + 1);
    set_counter(second.payload(), counter_in(second.payload()) + 1);
    co_await first.commit();
    co_await second.commit();
  }
  say(fmt::format("done {} updates of both", updates));
}

Task<void> use_words(QueuePair& qp, RemoteSpan words, LocalSpan buffer, std::uint64_t adds, std::uint64_t client) {
  const RemoteSpan shared = words.subspan(0, 8);
  const RemoteSpan own = words.subspan(8 * (1 + client), 8);
  std::uint64_t before = 0;
  std::uint64_t value = 0;
  const std::uint64_t zero = 0;
  std::memcpy(buffer.data, &zero, sizeof zero);
  co_await qp.write(buffer, own);
  for (std::uint64_t i = 0; i < adds; ++i) {
    const std::uint64_t found = co_await qp.fetch_add(shared, 1);
    if (i > 0 && found <= before) {
      throw WrongValue(fmt::format("FETCH-ADD {} found {}, after {}", i, found, before));
    }
    before = found;
    const std::uint64_t swapped = co_await qp.compare_swap(own, value, value + 3);
    expect("CAS that fits", swapped, value);
    value += 3;
    const std::uint64_t kept = co_await qp.compare_swap(own, value + 1, 0);
    expect("CAS that does not fit", kept, value);
    co_await qp.read(buffer, own);
    std::uint64_t seen = 0;
    std::memcpy(&seen, buffer.data, sizeof seen);
    expect("READ of the word", seen, value);
  }
  const std::uint64_t last = ~std::uint64_t{0} - client;
  std::memcpy(buffer.data, &last, sizeof last);
  co_await qp.write(buffer, own);
  const std::uint64_t written = co_await qp.fetch_add(own, 0);
  expect("WRITE of the word", written, last);
  say(fmt::format("done {} FETCH-ADDs", adds));
}

Task<std::uint64_t> word_at_switch(QueuePair& qp, RemoteSpan words, LocalSpan buffer) {
  co_await qp.read(buffer, words.subspan(0, 8));
  std::uint64_t seen = 0;
  std::memcpy(&seen, buffer.data, sizeof seen);
  co_return seen;
}

void run(const std::vector<std::string>& arguments) {
  const std::string& command = arguments.at(0);
  const char* const device = std::getenv("LATCH_PEER_DEVICE");
  verbs::VerbsFabric fabric({.device = device == nullptr ? "" : device});
  if (command == "add" || command == "added") {
    verbs::RemoteNode at_switch(fabric, arguments.at(1));
    Node& client = fabric.add_node("client");
    const MemoryRegion buffer = client.allocate(8, Access::local_write);
    const auto qp = client.connect(at_switch);
    const RemoteSpan words = at_switch.region("words");
    if (command == "add") {
      const std::uint64_t number = std::stoull(arguments.at(3));
      if (number + 1 >= kMostWords) {
        throw std::invalid_argument("CLIENT: below 65535");
      }
      fabric.reactor().run(use_words(*qp, words, buffer.local(), std::stoull(arguments.at(2)), number));
    } else {
      const std::uint64_t sum = fabric.reactor().run(word_at_switch(*qp, words, buffer.local()));
      say(fmt::format("sum {}", sum));
    }
    return;
  }
  if (command == "endure") {
    endure(arguments, fabric);
    return;
  }
  if (command == "doubt") {
    doubt(arguments, fabric);
    return;
  }
  // An heir of shared memory must have an owner.
  const bool has_owner = command == "repair" && arguments.size() > 2;
  Place place(fabric, arguments.at(1),
              has_owner ? static_cast<std::uint16_t>(std::stoul(arguments.at(2))) : std::uint16_t{0});
  if (command == "move") {
    place.connect();
    move_tuples(place, std::stoull(arguments.at(2)), std::stoull(arguments.at(3)));
    return;
  }
  if (command == "hot" || command == "cold") {
    // A number behind the last one names no tuple.
    const RemoteSpan first = place.first();
    const std::uint64_t at = std::stoull(arguments.at(2)) * std::bit_ceil(first.length);
    const RemoteSpan tuple{{first.address.value + at}, first.length, first.rkey};
    if (command == "hot") {
      place.storage().make_hot(tuple);
    } else {
      place.storage().make_cold(tuple);
    }
    say(fmt::format("tuple {} is {}", arguments.at(2), command));
    return;
  }
  if (command == "sum") {
    place.connect();
    const std::uint64_t sum = fabric.reactor().run(sum_of(place));
    say(fmt::format("sum {}", sum));
    return;
  }
  if (command == "both") {
    Place other(fabric, arguments.at(2));
    place.connect();
    other.connect();
    fabric.reactor().run(count_both(place, other, std::stoull(arguments.at(3)), std::stoull(arguments.at(4))));
    return;
  }
  if (command == "make") {
    place.make(std::stoull(arguments.at(2)));
    say("ready");
    std::string line;
    std::getline(std::cin, line);
    place.connect();
    const std::uint64_t sum = fabric.reactor().run(sum_of(place));
    say(fmt::format("sum {}", sum));
  } else if (command == "count") {
    place.connect();
    fabric.reactor().run(count(place, std::stoull(arguments.at(2)), std::stoull(arguments.at(3))));
  } else if (command == "hold") {
    place.connect();
    fabric.reactor().run(hold(place));
  } else if (command == "write") {
    place.connect();
    fabric.reactor().run(write_slowly(place));
  } else if (command == "repair") {
    place.connect();
    fabric.reactor().run(repair(place));
  } else {
    throw std::invalid_argument(fmt::format(
        "{}: make, count, both, endure, doubt, sum, move, hot, cold, hold, write, repair, add or added", command));
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    run(std::vector<std::string>(argv + 1, argv + argc));
    return 0;
  } catch (const WrongValue& wrong) {
    std::cerr << "latch_peer: " << wrong.what() << "\n";
    return 1;
  } catch (const std::exception& error) {
    std::cerr << "latch_peer: " << error.what() << "\n";
    return 2;
  }
}
