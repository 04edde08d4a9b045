#include "scheme_monitor.h"

#include <fmt/format.h>

#include <algorithm>

namespace sidelatch::explore {

namespace {

constexpr std::size_t kMostNumbers = 2048;

}  // namespace

SchemeMonitor::SchemeMonitor(World& world, checker::Promise promise, std::uint32_t clients, fabric::RemoteSpan memory,
                             fabric::RemoteAddress latch, std::uint64_t first_read_tag)
    : world_(&world),
      promise_(promise),
      memory_(memory),
      latch_word_((latch - memory.address) / 8),
      first_read_tag_(first_read_tag),
      clients_(clients) {
  numbers_.reserve(64);
  if (promise_ == checker::Promise::latch_equivalent) {
    watch();
  }
}

template <class Do>
void SchemeMonitor::for_words(const Order::Access& access, const Do& visit) {
  if (access.address < memory_.address || access.address - memory_.address >= memory_.length) {
    return;  // another node's
  }
  const std::uint64_t begin = (access.address - memory_.address) / 8;
  const std::uint64_t end = std::min((access.address - memory_.address + access.length + 7) / 8, memory_.length / 8);
  for (std::uint64_t word = begin; word < end; ++word) {
    if (word != latch_word_) {
      visit(word);
    }
  }
}

void SchemeMonitor::watch() {
  placed_.assign(memory_.length / 8, 0);
  for (Client& client : clients_) {
    client.sampled.assign(placed_.size(), 0);
    client.at_post.assign(placed_.size(), 0);
  }
  const auto reader = [this](std::uint64_t tag) -> Client* {
    return tag < first_read_tag_ ? nullptr : &clients_[(tag - first_read_tag_) / 1000];
  };
  world_->observe({
      .changed =
          [this](const Order::Access& access) {
            if (access.tag < std::min<std::uint64_t>(first_read_tag_, kMostNumbers)) {
              for_words(access, [&](std::uint64_t word) {
                placed_[word] = std::max(placed_[word], static_cast<std::uint16_t>(access.tag));
              });
            }
          },
      .sampled =
          [this, reader](const Order::Access& access) {
            if (Client* const client = reader(access.tag)) {
              for_words(access, [&](std::uint64_t word) { client->sampled[word] = 1; });
            }
          },
      .posted =
          [this, reader](std::uint64_t tag) {
            if (Client* const client = reader(tag)) {
              client->at_post = placed_;
              return true;
            }
            return false;
          },
      .retried =
          [reader](std::uint64_t tag) {
            if (Client* const client = reader(tag)) {
              std::ranges::fill(client->sampled, 0);
            }
          },
  });
}

void SchemeMonitor::began(std::uint32_t number, bool writes) {
  world_->order_matters();
  Client& client = clients_[number];
  client.writes = writes;
  // Two updates may end in another order than their numbers; exclusion is judged by itself.
  client.floor = writes ? newest_read_ : newest_;
}

void SchemeMonitor::entered(std::uint32_t number) {
  world_->order_matters();
  Client& client = clients_[number];
  client.is_inside = true;
  for (std::uint32_t i = 0; i < clients_.size(); ++i) {
    Client& other = clients_[i];
    const bool exclude =
        promise_ == checker::Promise::exclusion ? client.writes || other.writes : client.writes && other.writes;
    if (i != number && other.is_inside && exclude) {
      client.meets |= 1U << i;
      other.meets |= 1U << number;
    }
  }
}

void SchemeMonitor::left(std::uint32_t client) {
  world_->order_matters();
  clients_[client].is_inside = false;
}

void SchemeMonitor::accepts(std::uint32_t number, std::uint64_t value) {
  world_->order_matters();
  Client& client = clients_[number];
  for (std::size_t word = 0; word < client.sampled.size(); ++word) {
    if (client.sampled[word] != 0 && client.at_post[word] > value) {
      client.too_new = client.at_post[word];
    }
  }
}

void SchemeMonitor::ended(std::uint32_t number, std::uint64_t value) {
  world_->order_matters();
  Client& client = clients_[number];
  if (client.met_one_that_ended) {
    world_->fail(Kind::mutual_exclusion, fmt::format("client {} was inside together with another one", number));
  }
  if (client.floor > value) {
    world_->fail(Kind::linearizability,
                 fmt::format("client {} {} number {} although an operation of number {} had ended before", number,
                             client.writes ? "wrote" : "read", value, client.floor));
  }
  if (client.too_new != 0) {
    world_->fail(
        Kind::linearizability,
        fmt::format("client {} accepted number {} after a part of number {} had been placed: it would not have kept "
                    "the object unchanged as a shared latch does",
                    number, value, client.too_new));
  }
  newest_ = std::max(newest_, value);
  if (client.writes) {
    numbers_.insert(std::ranges::upper_bound(numbers_, value), value);
  } else {
    newest_read_ = std::max(newest_read_, value);
  }
  for (std::uint32_t i = 0; i < clients_.size(); ++i) {
    clients_[i].met_one_that_ended = clients_[i].met_one_that_ended || (client.meets >> i & 1U) != 0;
  }
  forget(number);
}

void SchemeMonitor::refused(std::uint32_t client) {
  world_->order_matters();
  forget(client);
}

void SchemeMonitor::forget(std::uint32_t number) {
  for (Client& other : clients_) {
    other.meets &= ~(1U << number);
  }
  Client& client = clients_[number];
  client.writes = client.is_inside = client.met_one_that_ended = false;
  client.meets = 0;
  client.floor = client.too_new = 0;
  std::ranges::fill(client.sampled, 0);
  std::ranges::fill(client.at_post, 0);
}

}  // namespace sidelatch::explore
