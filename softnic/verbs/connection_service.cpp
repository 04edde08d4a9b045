#include "connection_service.h"

#include "context.h"
#include "convert.h"

#include "common/without_signals.h"
#include "roce/headers.h"
#include "roce/wire/wire.h"

#include <ifaddrs.h>
#include <netinet/in.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <iterator>
#include <random>
#include <utility>

namespace sidelatch::softnic::verbs {

namespace {

std::atomic<ConnectionService*> the_service = nullptr;
std::atomic<pid_t> its_process = 0;

// Never destroyed: other threads may call while the process exits.
std::mutex& making() {
  static auto* const kMutex = new std::mutex;
  return *kMutex;
}

cm::RdmaIds::Options options_for(const ProcessNic& nic) {
  std::random_device random;
  const __be64 guid = guid_of(nic.options().mac);
  return {.ca_guid = be64toh(guid),
          .seed = std::uint64_t{random()} << 32U | random(),
          .path_mtu = static_cast<std::uint8_t>(mtu_of(nic.options().mtu))};
}

// The addresses of a datagram that arrived, from the header in front of it.
cm::Route route_of(const std::byte* grh) {
  constexpr unsigned kVersion6 = 6;
  if (std::to_integer<unsigned>(grh[0]) >> 4U == kVersion6) {
    const roce::Ipv6 ip = roce::Ipv6::read(grh);
    return {.local = ip.destination, .remote = ip.source};
  }
  const roce::Ipv4 ip = roce::Ipv4::read(grh + nic::kGrhBytes - roce::Ipv4::kBytes);
  return {.local = roce::gid_of(ip.destination), .remote = roce::gid_of(ip.source)};
}

roce::Gid ip_of(const sockaddr& address) {
  roce::Gid ip{};
  if (address.sa_family == AF_INET6) {
    sockaddr_in6 in6{};
    std::memcpy(&in6, &address, sizeof in6);
    std::memcpy(ip.data(), &in6.sin6_addr, ip.size());
    return ip;
  }
  sockaddr_in in{};
  std::memcpy(&in, &address, sizeof in);
  roce::Ipv4Address ipv4{};
  std::memcpy(ipv4.data(), &in.sin_addr, ipv4.size());
  return roce::gid_of(ipv4);
}

bool is_of_an_interface(const roce::Gid& ip) {
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) {
    return false;
  }
  bool is_found = false;
  for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
    is_found = is_found || (one->ifa_addr != nullptr &&
                            (one->ifa_addr->sa_family == AF_INET || one->ifa_addr->sa_family == AF_INET6) &&
                            ip_of(*one->ifa_addr) == ip);
  }
  ::freeifaddrs(all);
  return is_found;
}

}  // namespace

// ---- Of the process.

ConnectionService* ConnectionService::if_made() noexcept { return the_service.load(); }

bool ConnectionService::is_borrowed() noexcept { return if_made() != nullptr && its_process.load() != ::getpid(); }

ConnectionService& ConnectionService::of_process() {
  // Before our lock: at fork() the locks are taken in the opposite order of their registration.
  std::shared_ptr<ProcessNic> nic = acquire();
  watch_process();
  const std::scoped_lock lock(making());
  if (if_made() == nullptr) {
    its_process = ::getpid();
    the_service = new ConnectionService(std::move(nic));  // stays
  } else {
    release(nic);
  }
  return *if_made();
}

void ConnectionService::watch_process() {
  static const int kRegistered = ::pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
  static_cast<void>(kRegistered);
}

void ConnectionService::before_fork() noexcept {
  making().lock();
  if (ConnectionService* const service = if_made()) {
    service->mutex_.lock();
  }
}

void ConnectionService::after_fork_in_parent() noexcept {
  if (ConnectionService* const service = if_made()) {
    service->mutex_.unlock();
  }
  making().unlock();
}

// The marks of descriptors stay, so that their use is refused.
void ConnectionService::after_fork_in_child() noexcept {
  if (ConnectionService* const service = if_made()) {
    service->ports_.abandon();
    service->mutex_.unlock();
    the_service = nullptr;
  }
  making().unlock();
}

// Before the NIC leaves the wire. Who does not answer within 150 ms learns it in another way, or not at all.
void ConnectionService::say_farewell() noexcept {
  std::unique_lock lock(mutex_, std::try_to_lock);
  // exit() called within a call must not hang: that call holds the lock and will not release it.
  const auto try_for_a_while = [&lock] {
    constexpr std::chrono::milliseconds kForOthers{100};
    for (const cm::Time limit = now() + kForOthers; !lock && now() < limit;) {
      std::this_thread::sleep_for(std::chrono::microseconds(100));
      static_cast<void>(lock.try_lock());
    }
    return lock.owns_lock();
  };
  if (!try_for_a_while()) {
    return;
  }
  // A thread that waits for an event must not learn of our own end: its program may be half destroyed.
  is_leaving_ = true;
  for (const auto& [channel, descriptor] : descriptors_) {
    channels_.signal(channel, 0);
  }
  try {
    take_arrivals();
    ids_.leave(now());
    finish();
    constexpr std::chrono::seconds kMost{1};
    for (const cm::Time limit = now() + kMost; (ids_.awaits_farewell() || !unsent_.empty()) && now() < limit;) {
      lock.unlock();
      std::this_thread::sleep_for(std::chrono::microseconds(200));  // what arrives may also wake our thread
      // A thread that forks may have it, and wait for a lock that our caller has.
      if (!try_for_a_while()) {
        return;
      }
      take_arrivals();
      ids_.advance(now());
      finish();
    }
  } catch (const std::exception&) {  // no memory: the others must do without
  }
  ports_.leave();
}

void ConnectionService::take_arrivals() {
  std::vector<Arrival> arrived;
  {
    const std::scoped_lock inbox_lock(inbox_mutex_);
    arrived.swap(inbox_);
  }
  for (const Arrival& arrival : arrived) {
    ids_.on_mad(arrival.route, arrival.mad, now());
  }
}

ConnectionService::ConnectionService(std::shared_ptr<ProcessNic> nic)
    : nic_(std::move(nic)),
      ports_(nic_->settings().wire, nic_->options().gids),
      ids_(*this, options_for(*nic_)),
      buffers_(kBuffers * kBufferBytes) {
  try {
    nic_->call([this](nic::Nic& device) {
      make_queue_pair(device);
      nic_->management = [this](nic::Nic& /*device*/) { hear(); };
      nic_->farewell = [this] { say_farewell(); };
    });
    const WithoutSignals none;
    std::thread([this] { run(); }).detach();
  } catch (...) {  // there are too many threads, or there is no memory
    nic_->call([this](nic::Nic& device) {
      nic_->management = {};
      nic_->farewell = {};
      destroy_queue_pair(device);
    });
    throw;
  }
}

cm::Time ConnectionService::now() noexcept { return std::chrono::steady_clock::now().time_since_epoch(); }

// ---- The queue pair; under the NIC's lock.

void ConnectionService::make_queue_pair(nic::Nic& device) {
  domain_ = device.make_domain();
  completions_ = &device.make_completion_queue(2 * kBuffers);
  key_ = device.register_memory({.data = buffers_.data(),
                                 .length = buffers_.size(),
                                 .address = reinterpret_cast<std::uintptr_t>(buffers_.data()),
                                 .domain = domain_,
                                 .rights = nic::Rights::local_write});
  pair_ = &device.make_queue_pair({.type = nic::QueuePairType::ud,
                                   .domain = domain_,
                                   .send_completions = completions_,
                                   .receive_completions = completions_,
                                   .send_depth = kBuffers,
                                   .receive_depth = kBuffers,
                                   .most_inline = cm::kMadBytes,
                                   .number = cm::kGeneralServicesQp});
  using nic::Attributes;
  using nic::QueuePairState;
  pair_->modify({.state = QueuePairState::init, .q_key = cm::kGeneralServicesQKey},
                Attributes::state | Attributes::p_key_index | Attributes::port | Attributes::q_key);
  for (std::uint64_t buffer = 0; buffer < kBuffers; ++buffer) {
    post_receive(buffer);
  }
  pair_->modify({.state = QueuePairState::rtr}, Attributes::state);
  pair_->modify({.state = QueuePairState::rts}, Attributes::state | Attributes::send_psn);
}

// Of one that may be half made.
void ConnectionService::destroy_queue_pair(nic::Nic& device) {
  if (pair_ != nullptr) {
    device.destroy(*std::exchange(pair_, nullptr));
  }
  if (completions_ != nullptr) {
    device.destroy(*std::exchange(completions_, nullptr));
  }
  if (key_ != 0) {
    device.deregister_memory(std::exchange(key_, 0));
  }
  if (domain_ != 0) {
    device.destroy_domain(std::exchange(domain_, 0));
  }
}

void ConnectionService::post_receive(std::uint64_t buffer) {
  const nic::Sge into{.address = reinterpret_cast<std::uintptr_t>(buffers_.data() + buffer * kBufferBytes),
                      .length = kBufferBytes,
                      .lkey = key_};
  static_cast<void>(pair_->post_receive({.id = buffer, .sges = {&into, 1}}));
}

void ConnectionService::hear() {
  if (completions_->size() == 0) {
    return;
  }
  std::array<nic::Completion, 16> some;
  for (std::size_t count = completions_->poll(some); count != 0; count = completions_->poll(some)) {
    const std::scoped_lock lock(inbox_mutex_);
    for (const nic::Completion& completion : std::span(some).first(count)) {
      if (completion.status != nic::CompletionStatus::success || completion.kind != nic::CompletionKind::receive) {
        continue;
      }
      const bool is_message = completion.bytes == kBufferBytes && completion.source_qp == cm::kGeneralServicesQp;
      if (is_message && inbox_.size() < kMostArrivals) {
        const std::byte* const bytes = buffers_.data() + completion.id * kBufferBytes;
        Arrival& arrival = inbox_.emplace_back(Arrival{.route = route_of(bytes), .mad = {}});
        std::memcpy(arrival.mad.data(), bytes + nic::kGrhBytes, arrival.mad.size());
      }
      post_receive(completion.id);
    }
    inbox_changed_.notify_one();
  }
  if (pair_->state() == nic::QueuePairState::sqe) {
    pair_->modify({.state = nic::QueuePairState::rts}, nic::Attributes::state);
  }
}

// False: the queue pair has no room yet. What cannot be sent at all is dropped, as on a wire; it is repeated if it
// matters.
bool ConnectionService::send(const cm::Outgoing& outgoing) {
  const auto& own = gids();
  const auto from = std::ranges::find(own, outgoing.route.local);
  const std::optional<roce::MacAddress> mac = nic_->try_resolve(outgoing.route.remote);
  if (from == own.end() || !mac) {
    return true;
  }
  const nic::Sge bytes{.address = reinterpret_cast<std::uintptr_t>(outgoing.mad.data()),
                       .length = static_cast<std::uint32_t>(outgoing.mad.size())};
  const nic::Post posted = nic_->post([&](nic::Nic&) {
    return pair_->post_send(
        {.inlined = true,
         .sges = {&bytes, 1},
         .to = {.mac = *mac, .gid = outgoing.route.remote, .gid_index = static_cast<std::uint8_t>(from - own.begin())},
         .remote_qp = cm::kGeneralServicesQp,
         .remote_q_key = cm::kGeneralServicesQKey});
  });
  return posted != nic::Post::full;
}

// ---- The thread.

void ConnectionService::finish() noexcept {
  try {
    std::ranges::move(ids_.take_outgoing(), std::back_inserter(unsent_));
    while (!unsent_.empty() && send(unsent_.front())) {
      unsent_.pop_front();
    }
  } catch (const std::exception&) {  // no memory: it is repeated if it matters
  }
  if (!is_leaving_) {
    for (const auto& [channel, descriptor] : descriptors_) {
      channels_.signal(channel, ids_.waiting_events(channel));
    }
  }
  const std::scoped_lock lock(inbox_mutex_);
  has_new_deadline_ = true;
  inbox_changed_.notify_one();
}

void ConnectionService::run() {
  ::pthread_setname_np(::pthread_self(), "sidelatch-cm");
  cm::Time deadline = cm::Time::max();
  for (;;) {
    std::vector<Arrival> arrived;
    {
      std::unique_lock lock(inbox_mutex_);
      const auto is_woken = [this] { return !inbox_.empty() || has_new_deadline_; };
      if (deadline == cm::Time::max()) {
        inbox_changed_.wait(lock, is_woken);
      } else {
        inbox_changed_.wait_until(lock, std::chrono::steady_clock::time_point(deadline), is_woken);
      }
      arrived.swap(inbox_);
      has_new_deadline_ = false;
    }
    const std::unique_lock lock(mutex_);
    try {
      for (const Arrival& arrival : arrived) {
        ids_.on_mad(arrival.route, arrival.mad, now());
      }
      ids_.advance(now());
    } catch (const std::exception& error) {  // no memory, say: what arrived is lost, and comes again
      complain(error.what());
    }
    finish();
    constexpr std::chrono::milliseconds kForRoom{1};
    deadline = unsent_.empty() ? ids_.next_deadline() : std::min<cm::Time>(ids_.next_deadline(), now() + kForRoom);
    const std::scoped_lock inbox_lock(inbox_mutex_);
    has_new_deadline_ = false;  // this was our own
  }
}

// ---- Event channels.

int ConnectionService::open_channel(int flags) {
  const std::unique_lock lock(mutex_);
  const cm::ChannelNumber channel = ids_.open_channel();
  try {
    const int descriptor = channels_.open(channel, flags);
    // One that was replaced without being closed.
    std::erase_if(descriptors_, [&](const auto& old) {
      if (old.second != descriptor) {
        return false;
      }
      ids_.close_channel(old.first, now());
      return true;
    });
    descriptors_[channel] = descriptor;
    return descriptor;
  } catch (...) {
    ids_.close_channel(channel, now());
    throw;
  }
}

void ConnectionService::close_channel(int descriptor) {
  std::unique_lock lock(mutex_);
  // A thread that takes events is about to wait for the next one. Programs (rping) close the channel at that moment,
  // and end with an error if the thread comes too late; with the kernel, which is slower here, it never does.
  const std::optional<cm::ChannelNumber> closing = channels_.find(descriptor);
  const auto taker = closing ? last_takers_.find(*closing) : last_takers_.end();
  if (taker != last_takers_.end() && taker->second != std::this_thread::get_id()) {
    constexpr std::chrono::milliseconds kForTheTaker{5};
    lock.unlock();
    std::this_thread::sleep_for(kForTheTaker);
    lock.lock();
  }
  const Ending ending(*this);
  if (const std::optional<cm::ChannelNumber> channel = channels_.remove(descriptor)) {
    descriptors_.erase(*channel);
    last_takers_.erase(*channel);
    ids_.close_channel(*channel, now());
  }
}

cm::ChannelNumber ConnectionService::channel_of(int descriptor) {
  const std::unique_lock lock(mutex_);
  const std::optional<cm::ChannelNumber> channel = channels_.find(descriptor);
  if (!channel) {
    refuse(EIO, "this event channel is another process's, from before fork()");
  }
  return *channel;
}

std::optional<cm::IdEvent> ConnectionService::take_event(int descriptor, std::optional<EventChannels::Waiter>& waiter) {
  const std::unique_lock lock(mutex_);
  if (!waiter) {
    waiter = channels_.waiter(descriptor);
  }
  if (!waiter) {
    refuse(EIO, "this event channel is another process's, from before fork()");
  }
  const cm::ChannelNumber channel = waiter->channel();
  if (!channels_.has(channel)) {
    waiter->end();
    return std::nullopt;
  }
  if (is_leaving_) {
    return std::nullopt;
  }
  std::optional<cm::IdEvent> event = ids_.next_event(channel);
  channels_.signal(channel, ids_.waiting_events(channel));
  if (event) {
    last_takers_[channel] = std::this_thread::get_id();
  }
  return event;
}

// ---- Surroundings.

const std::vector<roce::Gid>& ConnectionService::gids() const { return nic_->options().gids; }

bool ConnectionService::is_of_machine(const cm::SocketAddress& address) const {
  return std::ranges::find(gids(), address.ip) == gids().end() &&
         (address.is_loopback() || is_of_an_interface(address.ip));
}

bool ConnectionService::reaches(const roce::Gid& gid) {
  try {
    return nic_->try_resolve(gid).has_value();
  } catch (const roce::WireError& error) {
    complain(error.what());
    return false;
  }
}

std::optional<std::uint64_t> ConnectionService::occupant(const roce::Gid& gid) { return nic_->occupant(gid); }

std::uint16_t ConnectionService::take_port(cm::PortSpace space, const cm::SocketAddress& address,
                                           cm::PortSharing sharing, std::uint64_t owner) {
  return ports_.take(space, address, sharing, owner);
}
void ConnectionService::share_port(std::uint64_t owner, cm::PortSharing sharing) { ports_.share(owner, sharing); }
void ConnectionService::open_port(std::uint64_t owner) { ports_.open(owner); }
void ConnectionService::give_port(std::uint64_t owner) noexcept { ports_.give(owner); }
std::optional<roce::Gid> ConnectionService::station_at(cm::PortSpace space, const cm::SocketAddress& address) {
  try {
    return ports_.station_at(space, address);
  } catch (const roce::WireError&) {  // the file is locked by a process that is stopped: nobody is found
    return std::nullopt;
  }
}

}  // namespace sidelatch::softnic::verbs
