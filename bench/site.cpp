#include "site.h"

#include <sidelatch/checker/parallel.h>

#include <fmt/format.h>

#include <atomic>
#include <mutex>
#include <stdexcept>

namespace sidelatch::bench {

using namespace fabric;

namespace {

void validate(const SiteShape& shape) {
  if (shape.client_nodes == 0 || shape.memory_nodes == 0) {
    throw std::invalid_argument(fmt::format("{} client nodes, {} memory nodes: there must be 1 of each",
                                            shape.client_nodes, shape.memory_nodes));
  }
  if (shape.colocated && shape.client_nodes != shape.memory_nodes) {
    throw std::invalid_argument(fmt::format("{} client nodes on {} memory nodes: colocated, there must be as many",
                                            shape.client_nodes, shape.memory_nodes));
  }
}

}  // namespace

Site::Site(const SiteShape& shape, const sim::Profile& profile, std::uint64_t seed)
    : simulation_(std::make_unique<sim::Simulation>(sim::SimulationOptions{.profile = profile, .seed = seed})),
      seed_(seed),
      warm_up_(shape.warm_up),
      measured_(shape.measured) {
  validate(shape);
  for (std::uint32_t i = 0; i < shape.memory_nodes; ++i) {
    memory_nodes_.push_back(&simulation_->add_node("memory", shape.memory_profile.value_or(profile)));
  }
  if (shape.colocated) {
    clients_ = memory_nodes_;
    return;
  }
  for (std::uint32_t i = 0; i < shape.client_nodes; ++i) {
    clients_.push_back(&simulation_->add_node("client", shape.client_profile.value_or(profile)));
  }
}

Site::Site(const SiteShape& shape, Cluster& cluster, std::uint64_t seed)
    : cluster_(&cluster),
      rank_{cluster.options().rank, cluster.options().ranks},
      seed_(seed),
      warm_up_(cluster.options().warm_up),
      measured_(cluster.options().measured),
      clients_(cluster.clients().begin(), cluster.clients().end()),
      memory_nodes_(shape.memory_nodes, &cluster.storage()) {
  validate(shape);
}

Site::~Site() = default;

std::vector<RemoteSpan> Site::allocate(std::uint64_t bytes) {
  std::vector<RemoteSpan> memory;
  for (Node* node : memory_nodes_) {
    if (cluster_ != nullptr) {
      shared_.push_back(std::make_unique<Cluster::SharedMemory>(*cluster_, bytes));
      memory.push_back(shared_.back()->remote());
    } else {
      regions_.push_back(node->allocate(bytes, Access::remote_all));
      memory.push_back(regions_.back().remote());
    }
  }
  return memory;
}

sim::Simulation& Site::simulation() const {
  if (simulation_ == nullptr) {
    throw std::logic_error("a site of real machines has no simulation");
  }
  return *simulation_;
}

std::uint64_t Site::seed_of(std::uint32_t worker) const noexcept {
  constexpr std::uint64_t kMoreThanWorkers = 1000;
  return seed_ * kMoreThanWorkers + worker;
}

std::vector<std::uint32_t> Site::own_workers(std::uint32_t all) const {
  std::vector<std::uint32_t> own;
  for (std::uint32_t worker = rank_.rank; worker < all; worker += rank_.ranks) {
    own.push_back(worker);
  }
  return own;
}

sync::Retry Site::retry(const sync::Retry& wanted) const {
  return cluster_ != nullptr ? wanted.within(cluster_->options().limit) : wanted;
}

void Site::meet() {
  if (cluster_ != nullptr) {
    cluster_->barrier();
  }
}

checker::Estimate Site::measure(std::size_t count,
                                const std::function<Task<void>(std::size_t, checker::Windows&)>& task) {
  meet();
  checker::Windows windows(reactor().now() + warm_up_, measured_);
  {
    const Reactor::Scope tasks(reactor());
    for (std::size_t i = 0; i < count; ++i) {
      reactor().spawn(task(i, windows));
    }
    reactor().run();
  }
  return mops(windows.counts());
}

checker::Estimate Site::mops(const checker::Windows::Counts& counts) {
  checker::Windows::Counts all = counts;
  for (double& count : all) {
    count = sum(count);
  }
  return checker::rate(all, measured_);
}

double Site::sum(double mine) { return cluster_ != nullptr ? cluster_->sum(mine) : mine; }

QueuePairOptions queue_pair_options(Practice practice) { return {.one_doorbell_each = practice == Practice::paper}; }

sync::Retry retry_of(Practice practice) {
  return practice == Practice::paper ? sync::Retry::at_once() : sync::Retry::backoff();
}

void run_points(const ExperimentOptions& options, std::size_t count,
                const std::function<SiteShape(std::size_t)>& shape_of,
                const std::function<void(Site&, std::size_t)>& job) {
  std::mutex one_at_a_time;  // serializes progress reports
  std::size_t done = 0;
  const auto run = [&](std::size_t i, auto& where) {
    if (options.interrupted != nullptr && options.interrupted->load(std::memory_order_relaxed)) {
      throw Interrupted("interrupted");
    }
    Site site(shape_of(i), where, options.seed + i);
    job(site, i);
    site.meet();  // no process may free its memory before all are done
    const std::lock_guard lock(one_at_a_time);
    ++done;
    if (options.progress) {
      options.progress(done, count);
    }
  };
  if (options.cluster != nullptr) {
    for (std::size_t i = 0; i < count; ++i) {
      run(i, *options.cluster);
    }
    return;
  }
  const sim::Profile profile = sim::load_profile(options.profile);
  checker::for_each_index(count, [&](std::size_t i) { run(i, profile); });
}

}  // namespace sidelatch::bench
