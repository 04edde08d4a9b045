// Making and ending the NIC's objects.
#include "nic.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace sidelatch::softnic::nic {

namespace {

[[noreturn]] void refuse(NicError::Kind kind, const std::string& what) { throw NicError(kind, what); }

void check_range(const char* what, std::uint64_t value, std::uint64_t least, std::uint64_t most) {
  if (value < least || value > most) {
    refuse(NicError::Kind::invalid, fmt::format("{} is {}: it must be {} to {}", what, value, least, most));
  }
}

void check_room(const char* what, std::size_t used, std::size_t most) {
  if (used >= most) {
    refuse(NicError::Kind::full, fmt::format("all {} {} of the NIC are in use", most, what));
  }
}

template <class Queue>
void erase(std::vector<std::unique_ptr<Queue>>& queues, Queue& queue, const char* what) {
  if (queue.users != 0) {
    refuse(NicError::Kind::busy, fmt::format("{} queue pairs still use the {}: destroy them first", queue.users, what));
  }
  const auto found = std::ranges::find(queues, &queue, &std::unique_ptr<Queue>::get);
  if (found == queues.end()) {
    refuse(NicError::Kind::invalid, fmt::format("the {} is not of this NIC", what));
  }
  std::swap(*found, queues.back());
  queues.pop_back();
}

bool is_of_queue_pair(Event::Kind kind) { return kind <= Event::Kind::access_error; }

}  // namespace

Nic::Nic(NicOptions options, MemoryAccess& memory)
    : device_(std::move(options), memory), next_number_(device_.options.first_queue_pair) {
  if (device_.options.gids.empty() || device_.options.window_packets == 0) {
    refuse(NicError::Kind::invalid, "a NIC needs a GID, and a window of at least one packet");
  }
}

// Destroy the queue pairs first: they use the queues.
Nic::~Nic() { queue_pairs_.clear(); }

void Nic::destroy_domain(Domain domain) {
  const bool has_pair =
      std::ranges::any_of(queue_pairs_, [&](const auto& entry) { return entry.second->options().domain == domain; });
  const bool has_queue =
      std::ranges::any_of(receive_queues_, [&](const auto& queue) { return queue->domain == domain; });
  if (has_pair || has_queue) {
    refuse(NicError::Kind::busy,
           fmt::format("protection domain {} still has queue pairs or shared receive queues", domain));
  }
  device_.table.remove_domain(domain);
}

void Nic::change_memory(std::uint32_t key, const Region& region) {
  device_.table.change(key, region);
  device_.memory.end_region(key);
  device_.poll_waiting();
}

void Nic::deregister_memory(std::uint32_t key) {
  device_.table.remove(key);
  device_.memory.end_region(key);
  device_.poll_waiting();
}

void Nic::destroy_window(std::uint32_t key) {
  const std::uint32_t now = device_.table.window_key(key);
  device_.table.remove_window(key);
  device_.memory.end_region(now);
  device_.poll_waiting();
}

std::uint32_t Nic::make_xrc_domain() {
  xrc_domains_.insert(next_xrc_domain_);
  return next_xrc_domain_++;
}

void Nic::destroy_xrc_domain(std::uint32_t domain) {
  const bool has_pair = std::ranges::any_of(
      queue_pairs_, [&](const auto& entry) { return entry.second->options().xrc_domain == domain; });
  const bool has_queue =
      std::ranges::any_of(receive_queues_, [&](const auto& queue) { return queue->xrc_domain == domain; });
  if (has_pair || has_queue) {
    refuse(NicError::Kind::busy, fmt::format("XRC domain {} still has queue pairs or shared receive queues", domain));
  }
  if (xrc_domains_.erase(domain) == 0) {
    refuse(NicError::Kind::invalid, fmt::format("there is no XRC domain {}", domain));
  }
}

std::optional<std::string> Nic::next_explanation() {
  if (device_.explanations.empty()) {
    return std::nullopt;
  }
  std::string sentence = std::move(device_.explanations.front());
  device_.explanations.pop_front();
  return sentence;
}

CompletionQueue& Nic::make_completion_queue(std::uint32_t depth) {
  check_range("the depth of a completion queue", depth, 1, device_.options.most_completions);
  check_room("completion queues", completion_queues_.size(), device_.options.most_completion_queues);
  completion_queues_.push_back(std::make_unique<CompletionQueue>(next_queue_++, depth));
  return *completion_queues_.back();
}

void Nic::resize(CompletionQueue& queue, std::uint32_t depth) const {
  check_range("the depth of a completion queue", depth, std::max<std::size_t>(queue.size(), 1),
              device_.options.most_completions);
  queue.resize(depth);
}

void Nic::destroy(CompletionQueue& queue) {
  const std::uint32_t number = queue.number();
  erase(completion_queues_, queue, "completion queue");
  device_.events.forget(number, [](Event::Kind kind) { return kind == Event::Kind::completion_queue_error; });
}

ReceiveQueue& Nic::make_shared_receive_queue(Domain domain, std::uint32_t depth, std::uint32_t most_sges) {
  if (!device_.table.has_domain(domain)) {
    refuse(NicError::Kind::invalid, fmt::format("there is no protection domain {}", domain));
  }
  check_range("the depth of a shared receive queue", depth, 1, device_.options.most_work_requests);
  check_range("its scatter elements", most_sges, 1, device_.options.most_sges);
  check_room("shared receive queues", receive_queues_.size(), device_.options.most_shared_receive_queues);
  receive_queues_.push_back(std::make_unique<ReceiveQueue>(depth, most_sges, next_queue_++));
  receive_queues_.back()->domain = domain;
  return *receive_queues_.back();
}

ReceiveQueue& Nic::make_xrc_receive_queue(Domain domain, std::uint32_t depth, std::uint32_t most_sges,
                                          std::uint32_t xrc_domain, CompletionQueue& completions) {
  if (!xrc_domains_.contains(xrc_domain)) {
    refuse(NicError::Kind::invalid, fmt::format("there is no XRC domain {}", xrc_domain));
  }
  ReceiveQueue& queue = make_shared_receive_queue(domain, depth, most_sges);
  queue.xrc_domain = xrc_domain;
  queue.completions = &completions;
  ++completions.users;
  device_.xrc_queues.emplace(queue.number(), &queue);
  return queue;
}

void Nic::resize(ReceiveQueue& queue, std::uint32_t depth) const {
  check_range("the depth of a shared receive queue", depth, std::max<std::uint32_t>(queue.size(), 1),
              device_.options.most_work_requests);
  queue.resize(depth);
}

void Nic::destroy(ReceiveQueue& queue) {
  const std::uint32_t number = queue.number();
  if (queue.completions != nullptr) {
    for (const auto& [of, pair] : queue_pairs_) {
      if (pair->options().type == QueuePairType::xrc_target) {
        pair->forget(queue);
      }
    }
    queue.completions->forget(queue);
    --queue.completions->users;
    device_.xrc_queues.erase(number);
  }
  erase(receive_queues_, queue, "shared receive queue");
  device_.events.forget(number, [](Event::Kind kind) { return kind == Event::Kind::shared_receive_limit; });
}

void Nic::check(const QueuePairOptions& options) const {
  const NicOptions& limits = device_.options;
  const bool is_target = options.type == QueuePairType::xrc_target;
  if (is_target && !xrc_domains_.contains(options.xrc_domain)) {
    refuse(NicError::Kind::invalid, fmt::format("there is no XRC domain {}", options.xrc_domain));
  }
  if (!is_target && !device_.table.has_domain(options.domain)) {
    refuse(NicError::Kind::invalid, fmt::format("there is no protection domain {}", options.domain));
  }
  const bool receives = service_of(options.type) != Service::xrc;
  if ((!is_target && options.send_completions == nullptr) || (receives && options.receive_completions == nullptr)) {
    refuse(NicError::Kind::invalid, "a queue pair needs completion queues for sends and receives");
  }
  check_range("send_depth", options.send_depth, 0, limits.most_work_requests);
  check_range("receive_depth", options.receive_depth, 0, limits.most_work_requests);
  check_range("most_send_sges", options.most_send_sges, 0, limits.most_sges);
  check_range("most_receive_sges", options.most_receive_sges, 0, limits.most_sges);
  check_range("most_inline", options.most_inline, 0, limits.most_inline);
  check_range("number", options.number, 0, kGroupQueuePair - 1);
  // 0 and 1 are reserved for management (3.5.3); 1 is for datagrams between connection managers.
  if (options.number == 1 && options.type != QueuePairType::ud) {
    refuse(NicError::Kind::invalid, "queue pair 1 is for datagrams");
  }
}

std::uint32_t Nic::choose_number(std::uint32_t wanted) {
  if (wanted != 0) {
    if (find_queue_pair(wanted) != nullptr) {
      refuse(NicError::Kind::invalid, fmt::format("the queue pair number {:#x} is taken", wanted));
    }
    return wanted;
  }
  while (find_queue_pair(next_number_) != nullptr) {
    next_number_ = next_number_ >= kGroupQueuePair - 1 ? 2 : next_number_ + 1;
  }
  const std::uint32_t number = next_number_;
  // Do not reuse the number soon: packets for its former owner may still be on their way.
  next_number_ = next_number_ >= kGroupQueuePair - 1 ? 2 : next_number_ + 1;
  return number;
}

QueuePair& Nic::make_queue_pair(const QueuePairOptions& options) {
  check(options);
  check_room("queue pairs", queue_pairs_.size(), device_.options.most_queue_pairs);
  const std::uint32_t number = choose_number(options.number);
  auto pair = std::make_unique<QueuePair>(device_, options, number);
  QueuePair& made = *queue_pairs_.emplace(number, std::move(pair)).first->second;
  for (CompletionQueue* const queue : {options.send_completions, options.receive_completions}) {
    if (queue != nullptr) {
      ++queue->users;
    }
  }
  if (options.shared_receives != nullptr) {
    ++options.shared_receives->users;
  }
  return made;
}

void Nic::attach(QueuePair& queue_pair, const Gid& group) {
  if (!is_group(group) || queue_pair.options().type != QueuePairType::ud) {
    refuse(NicError::Kind::invalid, "only a queue pair for datagrams joins a group, which is a multicast address");
  }
  std::vector<QueuePair*>& members = groups_[group];
  if (std::ranges::find(members, &queue_pair) == members.end()) {
    members.push_back(&queue_pair);
  }
}

void Nic::detach(QueuePair& queue_pair, const Gid& group) {
  const auto found = groups_.find(group);
  if (found == groups_.end() || std::erase(found->second, &queue_pair) == 0) {
    refuse(NicError::Kind::invalid, "the queue pair is not in this group");
  }
  if (found->second.empty()) {
    groups_.erase(found);
  }
}

bool Nic::is_attached(const QueuePair& queue_pair) const noexcept {
  return std::ranges::any_of(
      groups_, [&](const auto& group) { return std::ranges::find(group.second, &queue_pair) != group.second.end(); });
}

void Nic::destroy(QueuePair& queue_pair) {
  const QueuePairOptions options = queue_pair.options();
  const std::uint32_t number = queue_pair.number();
  if (find_queue_pair(number) != &queue_pair) {
    refuse(NicError::Kind::invalid, "the queue pair is not of this NIC");
  }
  timers_.set(queue_pair, kNever);
  for (auto& [group, members] : groups_) {
    std::erase(members, &queue_pair);
  }
  std::erase_if(groups_, [](const auto& entry) { return entry.second.empty(); });
  queue_pairs_.erase(number);
  for (CompletionQueue* const queue : {options.send_completions, options.receive_completions}) {
    if (queue != nullptr) {
      --queue->users;
    }
  }
  if (options.shared_receives != nullptr) {
    --options.shared_receives->users;
  }
  device_.events.forget(number, is_of_queue_pair);
}

}  // namespace sidelatch::softnic::nic
